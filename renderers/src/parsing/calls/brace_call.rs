use serde_json::Value;

use crate::parsing::draft::Draft;

/// What stands around text in Gemma's calls: FunctionGemma's token, and Gemma 4's.
const QUOTES: [&str; 2] = ["<escape>", "<|\"|>"];

/// Deeper nesting is refused.
const DEEPEST: usize = 64;

/// Reads a call as Gemma writes it: `call:NAME{key:<escape>text<escape>,count:2}`. Its arguments leave when it has ended.
#[derive(Debug)]
pub(crate) struct BraceCall {
    start: usize,
    /// Up to here the brace has been looked for.
    search_from: usize,
    /// Where the arguments begin, once the call is named, or what is wrong with its head.
    head: Option<Result<usize, &'static str>>,
}

impl BraceCall {
    /// A reader of what begins at `start` of the draft's text.
    pub(crate) fn new(start: usize) -> Self {
        Self { start, search_from: start, head: None }
    }

    /// Takes text up to `end`.
    pub(crate) fn read(&mut self, end: usize, draft: &mut Draft) {
        if self.head.is_some() {
            return;
        }
        let Some(offset) = draft.text()[self.search_from..end].find('{') else {
            self.search_from = end;
            return;
        };
        let brace = self.search_from + offset;
        let name = draft.text()[self.start..brace].trim().strip_prefix("call:").map(str::trim);
        self.head = Some(match name.map(str::to_owned) {
            None => Err("the call does not begin with `call:`"),
            Some(name) if name.is_empty() => Err("the call has no name"),
            Some(name) => {
                draft.name_call(None, name);
                Ok(brace)
            }
        });
    }

    /// Ends the call, whose text goes up to `text_end`, and its mark up to `end`.
    pub(crate) fn close(&self, text_end: usize, end: usize, draft: &mut Draft) {
        let arguments = match self.head {
            None => Err("nothing is called".to_owned()),
            Some(Err(error)) => Err(error.to_owned()),
            Some(Ok(brace)) => json_of(&draft.text()[brace..text_end]),
        };
        let read = arguments.and_then(|json| {
            let value = serde_json::from_str::<Value>(&json).map_err(|error| format!("the arguments: {error}"))?;
            Ok((json, value))
        });
        match read {
            Ok((json, value)) => {
                draft.push_arguments(json);
                draft.close_call(end, Ok(value));
            }
            Err(error) => draft.close_call(end, Err(error)),
        }
    }
}

/// Arguments as JSON text.
fn json_of(written: &str) -> Result<String, String> {
    let mut reader = Reader { text: written, at: 0 };
    let mut json = String::new();
    reader.object(&mut json, 0)?;
    match reader.rest().trim().is_empty() {
        true => Ok(json),
        false => Err("text follows the arguments".to_owned()),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Takes white space and `token`, if that follows.
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.rest().trim_start();
        let follows = rest.starts_with(token);
        if follows {
            self.at = self.text.len() - rest.len() + token.len();
        }
        follows
    }

    /// Text between two quotes, if one follows.
    fn quoted(&mut self) -> Result<Option<&'t str>, String> {
        let Some(quote) = QUOTES.into_iter().find(|quote| self.takes(quote)) else { return Ok(None) };
        let rest = self.rest();
        let end = rest.find(quote).ok_or_else(|| format!("no `{quote}` ends a text of the arguments"))?;
        self.at += end + quote.len();
        Ok(Some(&rest[..end]))
    }

    fn object(&mut self, json: &mut String, depth: usize) -> Result<(), String> {
        if !self.takes("{") {
            return Err("the arguments are not an object".to_owned());
        }
        self.items(json, ['{', '}'], |reader, json| {
            let key = match reader.quoted()? {
                Some(key) => key,
                None => {
                    let rest = reader.rest();
                    let end = rest.find([':', ',', '{', '}']).unwrap_or(rest.len());
                    reader.at += end;
                    rest[..end].trim()
                }
            };
            if key.is_empty() || !reader.takes(":") {
                return Err("an argument has no name".to_owned());
            }
            json.push_str(&Value::from(key).to_string());
            json.push_str(": ");
            reader.value(json, depth + 1)
        })
    }

    /// Items up to the closing bracket, commas between them; the opening one has been taken.
    fn items(
        &mut self,
        json: &mut String,
        [open, close]: [char; 2],
        item: impl Fn(&mut Self, &mut String) -> Result<(), String>,
    ) -> Result<(), String> {
        json.push(open);
        let mut closing = [0; 4];
        let closing: &str = close.encode_utf8(&mut closing);
        if !self.takes(closing) {
            loop {
                item(self, json)?;
                if self.takes(closing) {
                    break;
                }
                if !self.takes(",") {
                    return Err(format!("no `{close}` ends the arguments"));
                }
                json.push_str(", ");
            }
        }
        json.push(close);
        Ok(())
    }

    fn value(&mut self, json: &mut String, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err("the arguments nest too deeply".to_owned());
        }
        if let Some(text) = self.quoted()? {
            json.push_str(&Value::from(text).to_string());
            return Ok(());
        }
        let rest = self.rest().trim_start();
        if rest.starts_with('{') {
            return self.object(json, depth);
        }
        if self.takes("[") {
            return self.items(json, ['[', ']'], |reader, json| reader.value(json, depth + 1));
        }
        let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
        self.at = self.text.len() - rest.len() + end;
        let bare = rest[..end].trim();
        match serde_json::from_str::<Value>(bare) {
            // Numbers keep their digits.
            Ok(_) => json.push_str(bare),
            Err(_) if bare.is_empty() => return Err("an argument has no value".to_owned()),
            Err(_) => json.push_str(&Value::from(bare).to_string()),
        }
        Ok(())
    }
}
