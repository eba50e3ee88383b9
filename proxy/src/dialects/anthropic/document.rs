//! Documents of text, as the text that the model reads.

use serde_json::{Map, Value};

use crate::dialects::field_checks::refuse;
use crate::error::ProxyError;

/// A `document` block of text as text, with its title and context where it has them. `field` is the block's path.
///
/// # Errors
/// A source that is no text (base64 such as a PDF, a URL, a file's id), and citations, are refused by name.
pub(super) fn document_text(field: &str, block: &Map<String, Value>) -> Result<String, ProxyError> {
    let cites = block.get("citations").and_then(|citations| citations.get("enabled"));
    if cites == Some(&Value::Bool(true)) {
        refuse(&format!("{field}.citations.enabled"), "must be false: the answers here cite no places of a document")?;
    }
    let source = source_text(&format!("{field}.source"), block.get("source"))?;
    let part = |name: &str| match block.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if text.is_empty() => Ok(String::new()),
        Some(Value::String(text)) => Ok(format!("<{name}>{text}</{name}>\n")),
        Some(_) => {
            let field = format!("{field}.{name}");
            Err(ProxyError::invalid(&field, format!("{field} must be a string")))
        }
    };
    let (title, context) = (part("title")?, part("context")?);
    Ok(format!("<document>\n{title}{context}<document_content>\n{source}\n</document_content>\n</document>\n"))
}

/// The text of a document's source.
fn source_text(field: &str, source: Option<&Value>) -> Result<String, ProxyError> {
    let source = source.unwrap_or(&Value::Null);
    let text_of = |field: &str, text: Option<&Value>| {
        let text = text.and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| ProxyError::invalid(field, format!("{field} must be a string")))
    };
    match (source.get("type").and_then(Value::as_str), source.get("content")) {
        (Some("text"), _) => text_of(&format!("{field}.data"), source.get("data")),
        (Some("content"), Some(Value::Array(blocks))) => {
            let text = |(index, block): (usize, &Value)| {
                let field = format!("{field}.content[{index}]");
                match block.get("type").and_then(Value::as_str) {
                    Some("text") => text_of(&format!("{field}.text"), block.get("text")),
                    Some(kind) => unread(&format!("{field}.type"), kind),
                    None => Err(ProxyError::invalid(&field, format!("{field} must be a block of text"))),
                }
            };
            Ok(blocks.iter().enumerate().map(text).collect::<Result<Vec<String>, _>>()?.join("\n"))
        }
        (Some("content"), content) => text_of(&format!("{field}.content"), content),
        (Some(kind), _) => unread(&format!("{field}.type"), kind),
        (None, _) => {
            let field = format!("{field}.type");
            let message = format!(
                "{field} must be `text` or `content`: the source of a `document`, but this model reads text alone"
            );
            Err(ProxyError::invalid(&field, message))
        }
    }
}

/// The error for what is no text.
fn unread(field: &str, kind: &str) -> Result<String, ProxyError> {
    let message = format!("{field} is `{kind}`, but this model reads text alone; send the text of it as `text`");
    Err(ProxyError::invalid(field, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn read(block: Value) -> Result<String, String> {
        document_text("at", block.as_object().unwrap()).map_err(refused_field)
    }

    #[test]
    fn a_document_of_text_is_its_title_its_context_and_its_text() {
        let text = json!({ "type": "text", "media_type": "text/plain", "data": "Rain." });
        let blocks = json!({ "type": "content", "content": [{ "type": "text", "text": "Rain." }, { "type": "text", "text": "Sun." }] });
        for (block, expected) in [
            (
                json!({ "source": text, "title": "Weather", "context": "of today", "citations": { "enabled": false } }),
                "<title>Weather</title>\n<context>of today</context>\n<document_content>\nRain.\n",
            ),
            (json!({ "source": text, "title": null }), "<document_content>\nRain.\n"),
            (json!({ "source": blocks }), "<document_content>\nRain.\nSun.\n"),
            (json!({ "source": { "type": "content", "content": "Rain." } }), "<document_content>\nRain.\n"),
        ] {
            let whole = format!("<document>\n{expected}</document_content>\n</document>\n");
            assert_eq!(read(block.clone()), Ok(whole), "{block}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused_by_name() {
        let image = json!({ "type": "content", "content": [{ "type": "image", "source": {} }] });
        for (block, field) in [
            (json!({}), "at.source.type"),
            (
                json!({ "source": { "type": "base64", "media_type": "application/pdf", "data": "JVBE" } }),
                "at.source.type",
            ),
            (json!({ "source": { "type": "url", "url": "https://x" } }), "at.source.type"),
            (json!({ "source": { "type": "file", "file_id": "file_1" } }), "at.source.type"),
            (json!({ "source": { "type": "text" } }), "at.source.data"),
            (json!({ "source": { "type": "content" } }), "at.source.content"),
            (json!({ "source": image }), "at.source.content[0].type"),
            (json!({ "source": { "type": "content", "content": ["x"] } }), "at.source.content[0]"),
            (json!({ "source": { "type": "text", "data": "x" }, "title": 7 }), "at.title"),
            (
                json!({ "source": { "type": "text", "data": "x" }, "citations": { "enabled": true } }),
                "at.citations.enabled",
            ),
        ] {
            assert_eq!(read(block.clone()), Err(field.to_owned()), "{block}");
        }
    }
}
