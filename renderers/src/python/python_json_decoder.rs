use std::fmt::Write;

use crate::python::python_text::float_repr;

/// Deeper nesting is refused, where Python would run into its own limit of recursion.
const DEEPEST: usize = 900;

/// A value as Python's `json.loads` reads it. Numbers keep their size, strings the halves of surrogate pairs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PythonJson {
    /// `null`.
    Null,
    /// `true` and `false`.
    Bool(bool),
    /// An integer of any size, as Python writes it.
    Integer(String),
    /// A number with a fraction or an exponent, `NaN` and the infinities.
    Float(f64),
    /// A string, in units of UTF-16.
    String(Vec<u16>),
    /// An array.
    Array(Vec<PythonJson>),
    /// An object; of equal keys the last one's value stands in the first one's place.
    Object(Vec<(Vec<u16>, PythonJson)>),
}

/// What `json.JSONDecodeError` says, with the place in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}: line {line} column {column} (char {character})")]
pub(crate) struct PythonJsonError {
    message: &'static str,
    line: usize,
    column: usize,
    character: usize,
}

/// Python's `json.loads` of a string.
pub(crate) fn loads(text: &str) -> Result<PythonJson, PythonJsonError> {
    let mut decoder = Decoder { text: text.chars().collect(), at: 0 };
    if text.starts_with('\u{feff}') {
        return Err(decoder.error("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0));
    }
    decoder.skip_space();
    let value = decoder.value(0)?;
    decoder.skip_space();
    match decoder.peek() {
        Some(_) => Err(decoder.error("Extra data", decoder.at)),
        None => Ok(value),
    }
}

impl PythonJson {
    /// The value of a key, where this is an object that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        entries.iter().find(|(name, _)| name.iter().copied().eq(key.encode_utf16())).map(|(_, value)| value)
    }

    /// The text, where this is a string; halves of surrogate pairs are replaced.
    pub(crate) fn as_text(&self) -> Option<String> {
        let Self::String(units) = self else { return None };
        Some(String::from_utf16_lossy(units))
    }

    /// Whether this is an object.
    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Python's `json.dumps` as it is without arguments.
    pub(crate) fn dumps(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Integer(digits) => out.push_str(digits),
            Self::Float(value) if value.is_nan() => out.push_str("NaN"),
            Self::Float(value) if value.is_infinite() => {
                out.push_str(if *value > 0.0 { "Infinity" } else { "-Infinity" });
            }
            Self::Float(value) => out.push_str(&float_repr(*value)),
            Self::String(units) => write_string(out, units),
            Self::Array(items) => {
                write_list(out, ['[', ']'], items, |out, item| item.write(out));
            }
            Self::Object(entries) => write_list(out, ['{', '}'], entries, |out, (key, value)| {
                write_string(out, key);
                out.push_str(": ");
                value.write(out);
            }),
        }
    }
}

fn write_list<T>(out: &mut String, brackets: [char; 2], items: &[T], write: impl Fn(&mut String, &T)) {
    out.push(brackets[0]);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
    out.push(brackets[1]);
}

fn write_string(out: &mut String, units: &[u16]) {
    out.push('"');
    for unit in units {
        match unit {
            0x08 => out.push_str("\\b"),
            0x09 => out.push_str("\\t"),
            0x0a => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            0x0d => out.push_str("\\r"),
            0x22 => out.push_str("\\\""),
            0x5c => out.push_str("\\\\"),
            0x20..=0x7e => out.extend(char::from_u32(u32::from(*unit))),
            // Writing into a string cannot fail.
            _ => drop(write!(out, "\\u{unit:04x}")),
        }
    }
    out.push('"');
}

/// Where the decoder stands in the text.
struct Decoder {
    text: Vec<char>,
    at: usize,
}

impl Decoder {
    fn error(&self, message: &'static str, character: usize) -> PythonJsonError {
        let before = &self.text[..character];
        let line_start = before.iter().rposition(|character| *character == '\n').map_or(0, |newline| newline + 1);
        let newlines = before.iter().filter(|character| **character == '\n').count();
        PythonJsonError { message, line: newlines + 1, column: character - line_start + 1, character }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    /// Takes a character if it is the one that is expected.
    fn take(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].iter().copied().take(word.len()).eq(word.chars());
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<PythonJson, PythonJsonError> {
        if depth > DEEPEST {
            return Err(self.error("Nested too deeply", self.at));
        }
        match self.peek() {
            Some('"') => self.string().map(PythonJson::String),
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            _ => self.scalar().ok_or_else(|| self.error("Expecting value", self.at)),
        }
    }

    /// Stands where it stood if there is no scalar.
    fn scalar(&mut self) -> Option<PythonJson> {
        let words = [
            ("null", PythonJson::Null),
            ("true", PythonJson::Bool(true)),
            ("false", PythonJson::Bool(false)),
            ("NaN", PythonJson::Float(f64::NAN)),
            ("Infinity", PythonJson::Float(f64::INFINITY)),
            ("-Infinity", PythonJson::Float(f64::NEG_INFINITY)),
        ];
        let word = words.into_iter().find(|(word, _)| self.take_word(word));
        word.map(|(_, value)| value).or_else(|| self.number())
    }

    /// Stands where it stood if there is no number. What does not go on as a number ends it.
    fn number(&mut self) -> Option<PythonJson> {
        let start = self.at;
        self.take('-');
        if !self.take('0') && self.digits() == 0 {
            self.at = start;
            return None;
        }
        let whole_end = self.at;
        if self.take('.') && self.digits() == 0 {
            self.at = whole_end;
        }
        let fraction_end = self.at;
        if self.take('e') || self.take('E') {
            let _ = self.take('+') || self.take('-');
            if self.digits() == 0 {
                self.at = fraction_end;
            }
        }
        let digits: String = self.text[start..self.at].iter().collect();
        Some(match digits.parse() {
            _ if self.at == whole_end && digits == "-0" => PythonJson::Integer("0".to_owned()),
            _ if self.at == whole_end => PythonJson::Integer(digits),
            Ok(value) => PythonJson::Float(value),
            Err(_) => return None,
        })
    }

    /// How many digits were taken.
    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|character| character.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn array(&mut self, depth: usize) -> Result<PythonJson, PythonJsonError> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.take(']') {
            return Ok(PythonJson::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(']') {
                return Ok(PythonJson::Array(items));
            }
            self.separator()?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<PythonJson, PythonJsonError> {
        let mut entries: Vec<(Vec<u16>, PythonJson)> = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.take('}') {
            return Ok(PythonJson::Object(entries));
        }
        loop {
            if self.peek() != Some('"') {
                return Err(self.error("Expecting property name enclosed in double quotes", self.at));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(':') {
                return Err(self.error("Expecting ':' delimiter", self.at));
            }
            self.skip_space();
            let value = self.value(depth + 1)?;
            match entries.iter_mut().find(|(earlier, _)| *earlier == key) {
                Some((_, earlier)) => *earlier = value,
                None => entries.push((key, value)),
            }
            self.skip_space();
            if self.take('}') {
                return Ok(PythonJson::Object(entries));
            }
            self.separator()?;
        }
    }

    fn separator(&mut self) -> Result<(), PythonJsonError> {
        if !self.take(',') {
            return Err(self.error("Expecting ',' delimiter", self.at));
        }
        self.skip_space();
        Ok(())
    }

    fn string(&mut self) -> Result<Vec<u16>, PythonJsonError> {
        let opening = self.at;
        let mut units = Vec::new();
        self.at += 1;
        loop {
            let Some(character) = self.peek() else {
                return Err(self.error("Unterminated string starting at", opening));
            };
            match character {
                '"' => {
                    self.at += 1;
                    return Ok(units);
                }
                '\\' => units.push(self.escape(opening)?),
                '\0'..='\u{1f}' => return Err(self.error("Invalid control character at", self.at)),
                _ => {
                    units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, opening: usize) -> Result<u16, PythonJsonError> {
        let backslash = self.at;
        self.at += 2;
        let unit = match self.text.get(backslash + 1) {
            Some('"') => 0x22,
            Some('\\') => 0x5c,
            Some('/') => 0x2f,
            Some('b') => 0x08,
            Some('f') => 0x0c,
            Some('n') => 0x0a,
            Some('r') => 0x0d,
            Some('t') => 0x09,
            Some('u') => return self.unicode_escape(backslash + 1),
            Some(_) => return Err(self.error("Invalid \\escape", backslash)),
            None => return Err(self.error("Unterminated string starting at", opening)),
        };
        Ok(unit)
    }

    /// The four digits after the `u` at `letter`. The text must go on behind them.
    fn unicode_escape(&mut self, letter: usize) -> Result<u16, PythonJsonError> {
        let wrong = self.error("Invalid \\uXXXX escape", letter);
        let end = letter + 5;
        if end >= self.text.len() {
            return Err(wrong);
        }
        let digits = &self.text[letter + 1..end];
        let unit = digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + digit.to_digit(16)?));
        self.at = end;
        unit.and_then(|unit| u16::try_from(unit).ok()).ok_or(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 made of each text: `{"text", "dumps"}` or `{"text", "error"}`.
    #[test]
    fn it_reads_and_fails_as_python_does() {
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../../tests/vectors/python_json.json")).unwrap();
        assert!(cases.len() > 500);
        for case in cases {
            let text = case["text"].as_str().unwrap();
            match loads(text) {
                Ok(value) => assert_eq!(Some(&*value.dumps()), case["dumps"].as_str(), "{text:?}"),
                Err(error) => assert_eq!(Some(&*error.to_string()), case["error"].as_str(), "{text:?}"),
            }
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let error = loads(&"[".repeat(100_000)).unwrap_err();
        assert_eq!(error.to_string(), "Nested too deeply: line 1 column 902 (char 901)");
    }
}
