//! Python's `repr` of data, as LiteLLM's telemetry writes containers into span attributes.

use serde_json::{Map, Number, Value};

/// Containers within containers that are followed; data from a model's API has less than ten levels.
const MAX_DEPTH: usize = 100;

/// Why a text is not a literal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: expected {expected}")]
pub struct LiteralError {
    /// Where, in bytes from the beginning.
    pub at: usize,
    /// What should have stood there.
    pub expected: &'static str,
}

/// Reads what `repr` writes of `None`, booleans, numbers, strings, bytes, lists, tuples, sets and dicts, as the JSON
/// value that says the same: tuples and sets become arrays, bytes the text of the same code points, dict keys strings.
///
/// Unlike Python's own reader it takes `inf` and `nan`, which `repr` writes and which are null in JSON, so that one
/// impossible logprob does not make a whole answer unreadable. JSON's `true`, `false` and `null` are read too.
///
/// # Errors
/// [`LiteralError`] for anything else, for numbers beyond a float and for more than 100 levels of containers.
pub fn parse_python_literal(text: &str) -> Result<Value, LiteralError> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.at < text.len() { Err(parser.expected("the end")) } else { Ok(value) }
}

struct Parser<'t> {
    text: &'t str,
    /// Always at a character's beginning.
    at: usize,
}

impl<'t> Parser<'t> {
    fn value(&mut self, depth: usize) -> Result<Value, LiteralError> {
        if depth > MAX_DEPTH {
            return Err(self.expected("no more than 100 levels"));
        }
        self.skip_space();
        match self.peek() {
            Some('[') => self.items(']', depth).map(|(items, _)| Value::Array(items)),
            Some('(') => self.group(depth),
            Some('{') => self.dict_or_set(depth),
            Some('\'' | '"') => self.string(Characters::Text).map(Value::String),
            Some('b' | 'B') if matches!(self.text.as_bytes().get(self.at + 1), Some(b'\'' | b'"')) => {
                self.at += 1;
                self.string(Characters::Bytes).map(Value::String)
            }
            Some('+' | '-' | '.' | '0'..='9') => self.number(),
            Some('a'..='z' | 'A'..='Z') => self.word(depth),
            _ => Err(self.expected("a value")),
        }
    }

    /// The values between brackets, and whether a comma stood behind the last one.
    fn items(&mut self, close: char, depth: usize) -> Result<(Vec<Value>, bool), LiteralError> {
        self.at += 1;
        if self.take(close) {
            return Ok((Vec::new(), false));
        }
        let first = self.value(depth + 1)?;
        self.items_after(first, close, depth)
    }

    fn items_after(&mut self, first: Value, close: char, depth: usize) -> Result<(Vec<Value>, bool), LiteralError> {
        let mut items = vec![first];
        loop {
            let comma = self.take(',');
            if self.take(close) {
                return Ok((items, comma));
            }
            if !comma {
                return Err(self.expected("a comma or the closing bracket"));
            }
            items.push(self.value(depth + 1)?);
        }
    }

    /// A tuple, or a value in brackets of its own.
    fn group(&mut self, depth: usize) -> Result<Value, LiteralError> {
        let (mut items, comma) = self.items(')', depth)?;
        match items.pop() {
            Some(only) if items.is_empty() && !comma => Ok(only),
            last => {
                items.extend(last);
                Ok(Value::Array(items))
            }
        }
    }

    fn dict_or_set(&mut self, depth: usize) -> Result<Value, LiteralError> {
        self.at += 1;
        if self.take('}') {
            return Ok(Value::Object(Map::new()));
        }
        let first = self.value(depth + 1)?;
        if self.take(':') {
            self.dict_after(first, depth).map(Value::Object)
        } else {
            self.items_after(first, '}', depth).map(|(items, _)| Value::Array(items))
        }
    }

    /// What follows the colon of a dict's first key.
    fn dict_after(&mut self, first_key: Value, depth: usize) -> Result<Map<String, Value>, LiteralError> {
        let mut entries = Map::new();
        let mut key = first_key;
        loop {
            let name = match key {
                Value::String(name) => name,
                other => other.to_string(),
            };
            entries.insert(name, self.value(depth + 1)?);
            let comma = self.take(',');
            if self.take('}') {
                return Ok(entries);
            }
            if !comma {
                return Err(self.expected("a comma or the closing brace"));
            }
            key = self.value(depth + 1)?;
            if !self.take(':') {
                return Err(self.expected("a colon"));
            }
        }
    }

    fn number(&mut self) -> Result<Value, LiteralError> {
        let start = self.at;
        if matches!(self.peek(), Some('+' | '-')) {
            self.at += 1;
        }
        if matches!(self.peek(), Some('a'..='z')) {
            return self.non_finite();
        }
        let mut previous = ' ';
        while let Some(next) = self.peek() {
            let sign_of_exponent = matches!(next, '+' | '-') && matches!(previous, 'e' | 'E');
            if !(next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E') || sign_of_exponent) {
                break;
            }
            previous = next;
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        let whole = || digits.parse::<i64>().map(Value::from).or_else(|_| digits.parse::<u64>().map(Value::from)).ok();
        let float = || digits.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number);
        whole().or_else(float).ok_or(LiteralError { at: start, expected: "a finite number" })
    }

    fn non_finite(&mut self) -> Result<Value, LiteralError> {
        let start = self.at;
        match self.name() {
            "inf" | "nan" => Ok(Value::Null),
            _ => Err(LiteralError { at: start, expected: "a number" }),
        }
    }

    fn word(&mut self, depth: usize) -> Result<Value, LiteralError> {
        let start = self.at;
        match self.name() {
            "None" | "null" | "inf" | "nan" => Ok(Value::Null),
            "True" | "true" => Ok(Value::Bool(true)),
            "False" | "false" => Ok(Value::Bool(false)),
            // How `repr` writes an empty set, which has no literal.
            "set" if self.peek() == Some('(') => self.group(depth),
            _ => Err(LiteralError { at: start, expected: "None, True, False or a value" }),
        }
    }

    fn name(&mut self) -> &'t str {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += rest.find(|next: char| !next.is_ascii_alphanumeric()).unwrap_or(rest.len());
        &self.text[start..self.at]
    }

    fn string(&mut self, characters: Characters) -> Result<String, LiteralError> {
        let Some(quote) = self.next() else { return Err(self.expected("a string")) };
        let mut string = String::new();
        loop {
            match self.next() {
                None => return Err(self.expected("the closing quote")),
                Some('\n') => return Err(self.expected("the closing quote before the end of the line")),
                Some(end) if end == quote => return Ok(string),
                Some('\\') => self.escape(&mut string, characters)?,
                Some(other) => string.push(other),
            }
        }
    }

    fn escape(&mut self, string: &mut String, characters: Characters) -> Result<(), LiteralError> {
        let start = self.at;
        let Some(kind) = self.next() else { return Err(self.expected("an escape")) };
        match (kind, characters) {
            ('\n', _) => {}
            ('\\' | '\'' | '"', _) => string.push(kind),
            ('a', _) => string.push('\u{7}'),
            ('b', _) => string.push('\u{8}'),
            ('f', _) => string.push('\u{c}'),
            ('n', _) => string.push('\n'),
            ('r', _) => string.push('\r'),
            ('t', _) => string.push('\t'),
            ('v', _) => string.push('\u{b}'),
            ('0'..='7', _) => {
                self.at = start;
                string.push(self.code_point(8, 1, 3)?);
            }
            ('x', _) => string.push(self.code_point(16, 2, 2)?),
            ('u', Characters::Text) => string.push(self.code_point(16, 4, 4)?),
            ('U', Characters::Text) => string.push(self.code_point(16, 8, 8)?),
            (other, _) => string.extend(['\\', other]),
        }
        Ok(())
    }

    /// A code point in digits. Half a surrogate pair, which a Python string may hold and no other, is replaced.
    fn code_point(&mut self, radix: u32, least: usize, most: usize) -> Result<char, LiteralError> {
        let start = self.at;
        let mut code = 0_u32;
        while let Some(digit) = self.peek().and_then(|next| next.to_digit(radix))
            && self.at < start + most
        {
            code = code.saturating_mul(radix).saturating_add(digit);
            self.at += 1;
        }
        if self.at < start + least || code > u32::from(char::MAX) {
            return Err(LiteralError { at: start, expected: "the digits of a character" });
        }
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Takes a character, after any space, if it comes next.
    fn take(&mut self, character: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(character);
        self.at += if found { character.len_utf8() } else { 0 };
        found
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn expected(&self, expected: &'static str) -> LiteralError {
        LiteralError { at: self.at, expected }
    }
}

/// What the escapes of a string may name.
#[derive(Clone, Copy)]
enum Characters {
    Text,
    Bytes,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Value {
        parse_python_literal(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn fault(text: &str) -> String {
        parse_python_literal(text).unwrap_err().to_string()
    }

    #[test]
    fn what_vllm_answers_is_read() {
        let choices = "[{'finish_reason': 'stop', 'index': 0, 'logprobs': {'content': [{'token': 'it\\'s', 'logprob': \
                       -1.5e-05, 'bytes': [105, 116], 'top_logprobs': []}]}, 'message': {'content': \"it's\", \
                       'tool_calls': None}, 'done': True, 'token_ids': [4, 5]}]";
        assert_eq!(
            parse(choices),
            json!([{
                "finish_reason": "stop", "index": 0,
                "logprobs": {"content": [
                    {"token": "it's", "logprob": -1.5e-05, "bytes": [105, 116], "top_logprobs": []}
                ]},
                "message": {"content": "it's", "tool_calls": null}, "done": true, "token_ids": [4, 5],
            }])
        );
    }

    #[test]
    fn every_kind_of_literal() {
        for (text, value) in [
            ("None", json!(null)),
            (" True ", json!(true)),
            ("[False,]", json!([false])),
            ("-7", json!(-7)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1e22", json!(1e22)),
            (".5", json!(0.5)),
            ("1.", json!(1.0)),
            ("[-inf, nan, inf]", json!([null, null, null])),
            ("()", json!([])),
            ("(1,)", json!([1])),
            ("(1, 2)", json!([1, 2])),
            ("(1)", json!(1)),
            ("{1, 2}", json!([1, 2])),
            ("set()", json!([])),
            ("{}", json!({})),
            ("{'a': {}, 50256: -100, (1, 2): None,}", json!({"a": {}, "50256": -100, "[1,2]": null})),
            ("b'\\x00\\u0041'", json!("\0\\u0041")),
            (r"'\\ \' \n \t \101 \x41 \u00e4 \U0001f600 \q \ud83d'", json!("\\ ' \n \t A A ä 😀 \\q \u{fffd}")),
            ("{\"a\": [true, null]}", json!({"a": [true, null]})),
        ] {
            assert_eq!(parse(text), value, "{text}");
        }
    }

    #[test]
    fn what_is_no_literal_is_an_error_that_says_where() {
        for (text, error) in [
            ("", "at byte 0: expected a value"),
            ("[1, 2", "at byte 5: expected a comma or the closing bracket"),
            ("[1 2]", "at byte 3: expected a comma or the closing bracket"),
            ("[,]", "at byte 1: expected a value"),
            ("{'a' 1}", "at byte 5: expected a comma or the closing bracket"),
            ("{'a': 1 'b': 2}", "at byte 8: expected a comma or the closing brace"),
            ("{'a': 1, 'b'}", "at byte 12: expected a colon"),
            ("'abc", "at byte 4: expected the closing quote"),
            ("'\\u12'", "at byte 3: expected the digits of a character"),
            ("'\\U00110000'", "at byte 3: expected the digits of a character"),
            ("__import__('os')", "at byte 0: expected a value"),
            ("ChatCompletion(id=1)", "at byte 0: expected None, True, False or a value"),
            ("1 + 1", "at byte 2: expected the end"),
            ("1e999", "at byte 0: expected a finite number"),
            ("-", "at byte 0: expected a finite number"),
        ] {
            assert_eq!(fault(text), error, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse_python_literal(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(fault(&nested(100_000)), "at byte 101: expected no more than 100 levels");
        assert!(parse_python_literal(&"{".repeat(100_000)).is_err());
    }

    /// Python's `repr`.
    fn repr(value: &Value) -> String {
        let joined = |items: Vec<String>| items.join(", ");
        match value {
            Value::Null => "None".to_owned(),
            Value::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => repr_of_text(text),
            Value::Array(items) => format!("[{}]", joined(items.iter().map(repr).collect())),
            Value::Object(entries) => {
                let entry = |(key, value): (&String, &Value)| format!("{}: {}", repr_of_text(key), repr(value));
                format!("{{{}}}", joined(entries.iter().map(entry).collect()))
            }
        }
    }

    fn repr_of_text(text: &str) -> String {
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        let mut written = String::from(quote);
        for character in text.chars() {
            match character {
                '\\' => written.push_str("\\\\"),
                '\n' => written.push_str("\\n"),
                '\r' => written.push_str("\\r"),
                '\t' => written.push_str("\\t"),
                same if same == quote => written.extend(['\\', same]),
                control if control.is_control() => written.push_str(&format!("\\x{:02x}", u32::from(control))),
                other => written.push(other),
            }
        }
        written.push(quote);
        written
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            proptest::num::f64::NORMAL.prop_map(Value::from),
            proptest::collection::vec(any::<char>(), 0..12).prop_map(|text| json!(text.iter().collect::<String>())),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((any::<u8>(), inner), 0..5).prop_map(|entries| {
                    entries.into_iter().map(|(key, value)| (format!("k'{key}"), value)).collect::<Map<_, _>>().into()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_repr_writes_is_read_back(value in any_value()) {
            prop_assert_eq!(parse(&repr(&value)), value);
        }

        #[test]
        fn nothing_panics(pieces in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec!["[", "]", "(", ")", "{", "}", "'", "\"", "\\", ",", ":", "-", "1", "e", "."])
                    .prop_map(str::to_owned),
                any::<char>().prop_map(String::from),
            ], 0..40))
        {
            let _ = parse_python_literal(&pieces.concat());
        }

        #[test]
        fn a_cut_literal_is_an_error_or_a_value(value in any_value(), part in 0.0..1.0_f64) {
            let text = repr(&value);
            let cut = text.char_indices().map(|(at, _)| at).nth((text.chars().count() as f64 * part) as usize);
            let _ = parse_python_literal(&text[..cut.unwrap_or(text.len())]);
        }
    }
}
