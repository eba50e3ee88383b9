use serde_json::Value;

use crate::parsing::calls::parameter_types::ParameterTypes;
use crate::parsing::calls::written_arguments::{Ended, read_json};
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

    /// What the call is where its text goes up to `end`, where a mark stands that would end it.
    pub(crate) fn ended(&self, end: usize, text: &str, types: &ParameterTypes) -> Ended {
        let brace = match self.head {
            None => return Ended::Broken("nothing is called".to_owned()),
            Some(Err(error)) => return Ended::Broken(error.to_owned()),
            Some(Ok(brace)) => brace,
        };
        let name = text[self.start..brace].trim();
        let name = name.strip_prefix("call:").map_or(name, str::trim);
        match json_of(&text[brace..end], name, types) {
            Ok(pieces) => match read_json(&pieces) {
                Ok(arguments) => Ended::Whole { pieces, arguments },
                Err(error) => Ended::Broken(format!("the arguments: {error}")),
            },
            Err(Fault::InText(error)) => Ended::InText(error),
            Err(Fault::Broken(error)) => Ended::Broken(error),
        }
    }
}

/// What is wrong with arguments.
enum Fault {
    /// A text of theirs does not end.
    InText(String),
    Broken(String),
}

impl From<&str> for Fault {
    fn from(error: &str) -> Self {
        Self::Broken(error.to_owned())
    }
}

/// Arguments of a tool as JSON text.
fn json_of(written: &str, tool: &str, types: &ParameterTypes) -> Result<String, Fault> {
    let mut reader = Reader { text: written, at: 0, tool, types };
    let mut json = String::new();
    reader.object(&mut json, 0)?;
    match reader.rest().trim().is_empty() {
        true => Ok(json),
        false => Err("text follows the arguments".into()),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Who is called, and what is known of its arguments.
    tool: &'t str,
    types: &'t ParameterTypes,
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

    /// Text between two quotes, if one follows. It may hold the quote itself: one ends it only where an argument, a list
    /// or an object may go on.
    fn quoted(&mut self) -> Result<Option<&'t str>, Fault> {
        let Some(quote) = QUOTES.into_iter().find(|quote| self.takes(quote)) else { return Ok(None) };
        let rest = self.rest();
        let ends = |end: &usize| rest[end + quote.len()..].trim_start().starts_with([',', '}', ']', ':']);
        let end = rest.match_indices(quote).map(|(end, _)| end).find(ends);
        let end = end.ok_or_else(|| Fault::InText(format!("no `{quote}` ends a text of the arguments")))?;
        self.at += end + quote.len();
        Ok(Some(&rest[..end]))
    }

    fn object(&mut self, json: &mut String, depth: usize) -> Result<(), Fault> {
        if !self.takes("{") {
            return Err("the arguments are not an object".into());
        }
        self.items(json, ['{', '}'], |reader, json| {
            let key = match reader.quoted()? {
                Some(key) => key,
                None => {
                    let rest = reader.rest();
                    let end = rest.find([':', ',', '{', '}']).unwrap_or(rest.len());
                    reader.at += end;
                    let key = rest[..end].trim();
                    // The names within an argument are not the tool's.
                    if depth == 0 {
                        reader.types.check_name(reader.tool, key).map_err(Fault::Broken)?;
                    }
                    key
                }
            };
            if key.is_empty() || !reader.takes(":") {
                return Err("an argument has no name".into());
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
        item: impl Fn(&mut Self, &mut String) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
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
                    return Err(Fault::Broken(format!("no `{close}` ends the arguments")));
                }
                json.push_str(", ");
            }
        }
        json.push(close);
        Ok(())
    }

    fn value(&mut self, json: &mut String, depth: usize) -> Result<(), Fault> {
        if depth > DEEPEST {
            return Err("the arguments nest too deeply".into());
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
            Err(_) if bare.is_empty() => return Err("an argument has no value".into()),
            Err(_) => json.push_str(&Value::from(bare).to_string()),
        }
        Ok(())
    }
}
