//! A reader of JSON from its beginning to its end. Hosts tell of each token in an event of its own, of which a few fields
//! matter: they are read where they stand, and what lies between is checked and passed over.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::AnswerFault;

/// More than any host's answers are nested.
const DEPTH_LIMIT: usize = 128;

/// What was read, or why that is not what it should be.
pub(crate) type Read<T> = Result<T, AnswerFault>;

/// The elements of an array. What hosts stream tells of one token at a time, for which no memory is taken.
pub type Elements<T> = SmallVec<[T; 1]>;

/// A place in a JSON text.
pub(crate) struct JsonReader<'d> {
    text: &'d str,
    at: usize,
    depth: usize,
}

impl<'d> JsonReader<'d> {
    /// Reads a text that is one value.
    pub(crate) fn whole<T>(text: &'d str, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        let mut reader = Self { text, at: 0, depth: 0 };
        let value = read(&mut reader)?;
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.lacks("the end")),
        }
    }

    /// Reads an object: each member by its name.
    pub(crate) fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Read<()>) -> Read<()> {
        self.enter(b'{', "an object")?;
        if !self.eat(b'}') {
            loop {
                let name = self.string()?;
                if !self.eat(b':') {
                    return Err(self.lacks("a colon"));
                }
                member(self, &name)?;
                if !self.eat(b',') {
                    break;
                }
            }
            if !self.eat(b'}') {
                return Err(self.lacks("the end of an object"));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an array: its elements by `element`.
    pub(crate) fn array<T>(&mut self, mut element: impl FnMut(&mut Self) -> Read<T>) -> Read<Elements<T>> {
        self.enter(b'[', "an array")?;
        let mut elements = Elements::new();
        if !self.eat(b']') {
            loop {
                elements.push(element(self)?);
                if !self.eat(b',') {
                    break;
                }
            }
            if !self.eat(b']') {
                return Err(self.lacks("the end of an array"));
            }
        }
        self.depth -= 1;
        Ok(elements)
    }

    /// Reads a value unless it is null.
    pub(crate) fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        if self.peek() == Some(b'n') {
            return self.word("null").map(|()| None);
        }
        read(self).map(Some)
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Read<Cow<'d, str>> {
        if self.peek() != Some(b'"') {
            return Err(self.lacks("a string"));
        }
        let (start, rest) = (self.at, &self.text.as_bytes()[self.at + 1..]);
        let length = plain_length(rest);
        match rest.get(length) {
            Some(b'"') => {
                self.at += length + 2;
                Ok(Cow::Borrowed(&self.text[start + 1..start + 1 + length]))
            }
            Some(b'\\') => self.escaped_string(),
            _ => Err(self.lacks("a whole string")),
        }
    }

    /// Reads a string with escapes.
    fn escaped_string(&mut self) -> Read<Cow<'d, str>> {
        let mut strings = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<String>();
        match strings.next() {
            Some(Ok(string)) => {
                self.at += strings.byte_offset();
                Ok(Cow::Owned(string))
            }
            _ => Err(self.lacks("a whole string")),
        }
    }

    /// Reads a whole number.
    pub(crate) fn integer(&mut self) -> Read<i64> {
        self.peek();
        // Ids are short.
        let rest = &self.text.as_bytes()[self.at..];
        let digits = rest.iter().take(18).take_while(|byte| byte.is_ascii_digit()).count();
        if matches!(rest.get(digits), Some(b',' | b']')) && digits > 0 && (rest[0] != b'0' || digits == 1) {
            self.at += digits;
            return Ok(rest[..digits].iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0')));
        }
        self.digits()?.parse().map_err(|_| self.lacks("a whole number"))
    }

    /// Reads a number, to the nearest that there is.
    pub(crate) fn number(&mut self) -> Read<f64> {
        let number = self.digits()?.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.lacks("a number that is not too large"))
    }

    /// Reads a number as it is written.
    fn digits(&mut self) -> Read<&'d str> {
        self.peek();
        let rest = &self.text[self.at..];
        let length = number_length(rest.as_bytes()).ok_or_else(|| self.lacks("a number"))?;
        self.at += length;
        Ok(&rest[..length])
    }

    /// Passes over a value, and gives its text.
    pub(crate) fn skip(&mut self) -> Read<&'d str> {
        let kind = self.peek();
        let start = self.at;
        match kind {
            Some(b'{') => self.object(|reader, _| reader.skip().map(drop))?,
            Some(b'[') => self.array(|reader| reader.skip().map(drop)).map(drop)?,
            Some(b'"') => drop(self.string()?),
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            _ => drop(self.number()?),
        }
        Ok(&self.text[start..self.at])
    }

    fn word(&mut self, word: &str) -> Read<()> {
        match self.text[self.at..].starts_with(word) {
            true => self.at += word.len(),
            false => return Err(self.lacks(word)),
        }
        Ok(())
    }

    /// The next byte that is no white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn enter(&mut self, byte: u8, what: &str) -> Read<()> {
        self.depth += 1;
        match self.eat(byte) {
            true if self.depth <= DEPTH_LIMIT => Ok(()),
            true => Err(self.lacks("an end of nesting")),
            false => Err(self.lacks(what)),
        }
    }

    /// That something is not where it should be.
    pub(crate) fn lacks(&self, what: &str) -> AnswerFault {
        AnswerFault::Unreadable { message: format!("{what} is expected at byte {} or before it", self.at) }
    }
}

/// How many bytes of a string stand for themselves, up to its end or an escape.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest of the highest bits that are set is that of the first byte below a bound: carries go upwards alone.
        let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word & HIGHEST;
        let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        let ends = below(word, 0x20) | equal(b'"') | equal(b'\\');
        if ends != 0 {
            return 8 * number + ends.trailing_zeros() as usize / 8;
        }
    }
    let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    let whole = bytes.len() - rest.len();
    rest.iter().position(ends).map_or(bytes.len(), |at| whole + at)
}

/// How many bytes a number at the beginning takes; `None` where there is none.
fn number_length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(length);
    // No number begins with a zero but those below one.
    if whole == 0 || (whole > 1 && bytes[length] == b'0') {
        return None;
    }
    length += whole;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(length + 1);
        length += (fraction > 0).then_some(1 + fraction)?;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits((length + 1 + sign).min(bytes.len()));
        length += (exponent > 0).then_some(1 + sign + exponent)?;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Number, Value};

    use super::*;

    /// A value as this reader sees it.
    fn value(reader: &mut JsonReader<'_>) -> Read<Value> {
        Ok(match reader.peek() {
            Some(b'{') => {
                let mut members = Map::new();
                reader.object(|reader, name| {
                    members.insert(name.to_owned(), value(reader)?);
                    Ok(())
                })?;
                Value::Object(members)
            }
            Some(b'[') => Value::Array(reader.array(value)?.into_vec()),
            Some(b'"') => Value::String(reader.string()?.into_owned()),
            Some(b't' | b'f') => Value::Bool(reader.skip()? == "true"),
            Some(b'n') => Value::from(reader.optional(|reader| reader.number())?),
            _ => Number::from_f64(reader.number()?).map_or(Value::Null, Value::Number),
        })
    }

    /// As [`value`] has it: numbers are floats.
    fn expected(value: Value) -> Value {
        match value {
            Value::Number(number) => number.as_f64().into(),
            Value::Array(values) => values.into_iter().map(expected).collect(),
            Value::Object(members) => members.into_iter().map(|(name, value)| (name, expected(value))).collect(),
            other => other,
        }
    }

    fn check(text: &str) {
        let library = serde_json::from_str::<Value>(text).map(expected);
        assert_eq!(JsonReader::whole(text, value).ok(), library.ok(), "{text:?}");
        let passed_over = JsonReader::whole(text, |reader| reader.skip().map(str::to_owned));
        assert_eq!(
            passed_over.ok(),
            serde_json::from_str::<Value>(text).ok().map(|_| text.trim().to_owned()),
            "{text:?}"
        );
    }

    #[test]
    fn what_is_no_json_is_not_read() {
        for text in [
            "",
            " ",
            "{",
            "{}x",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "\"a",
            "\"\\q\"",
            "\"\n\"",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "1e+",
            "+1",
            "nul",
            "nulls",
            "truefalse",
            "[}",
            "{\"a\":1,}",
            "NaN",
            "Infinity",
            "'a'",
            "--1",
        ] {
            assert!(JsonReader::whole(text, value).is_err(), "{text:?}");
            check(text);
        }
        let deep = "[".repeat(1_000_000);
        assert!(JsonReader::whole(&deep, |reader| reader.skip().map(drop)).is_err());
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        let integers = |text| JsonReader::whole(text, |reader| reader.array(JsonReader::integer)).ok();
        assert_eq!(integers("[0, 12,-12 ,123456789012345678,1234567890123456789]").map(|all| all.len()), Some(5));
        assert_eq!(integers("[7,-0,30 ]"), Some(Elements::from_vec(vec![7, 0, 30])));
        for text in ["[1.0]", "[1e2,3]", "[99999999999999999999]", "[00]", "[01,2]", "[-]", "[1,]", "[,1]", "[1a]"] {
            assert_eq!(integers(text), None, "{text}");
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let number =
            (any::<f64>(), any::<f32>()).prop_map(|(double, single)| format!("[{double}, {single:e}, {single}]"));
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("false".to_owned()),
            number,
            any::<i64>().prop_map(|number| number.to_string()),
            ".*".prop_map(|text| Value::String(text).to_string()),
            Just(r#""\u00e9\ud83d\ude42\n\/""#.to_owned()),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let member =
                (".{0,4}", inner.clone()).prop_map(|(name, value)| format!("{} :{value}", Value::String(name)));
            prop_oneof![
                proptest::collection::vec(inner, 0..6).prop_map(|values| format!("[ {} ]", values.join(" ,\n"))),
                proptest::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_read_as_the_library_reads_it(text in json()) {
            check(&text);
        }

        #[test]
        fn broken_json_is_refused_as_the_library_refuses_it(text in json(), at in any::<prop::sample::Index>(), put in "[\\[\\]{}:,\"\\\\0-9.eE+-]?") {
            let mut characters: Vec<char> = text.chars().collect();
            let at = at.index(characters.len());
            characters.splice(at..=at, put.chars());
            check(&characters.into_iter().collect::<String>());
        }
    }
}
