//! JSON texts with halves of surrogate pairs, which JavaScript and Python write where they cut a text in two. No reader of
//! Unicode takes them: they are replaced before the text is read.

use std::borrow::Cow;
use std::ops::Range;

/// Places that are named of a text.
const NAMED_PLACES: usize = 8;
/// Bytes of a key that stand in a place.
const LONGEST_KEY: usize = 64;
/// What stands in the place of an escaped half: six bytes for six, so that errors of the reader keep their columns.
const ESCAPED_REPLACEMENT: &[u8] = b"\\ufffd";
/// The same of a half in bytes, three for three.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// A JSON text in which halves of surrogate pairs became U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MendedJson {
    /// The text, as long as it was.
    pub text: Vec<u8>,
    /// How many halves were replaced.
    pub replaced: usize,
    /// Where the first of them stand, such as `messages[1].content`.
    pub places: Vec<String>,
}

impl MendedJson {
    /// Replaces the halves of surrogate pairs in a JSON text, escaped or in bytes, and in the arguments of a tool call, which
    /// are JSON in a string; `None` of a text that has none.
    pub fn of(json: &[u8]) -> Option<Self> {
        if !may_hold_half(json) {
            return None;
        }
        let Halves { found, places } = Halves::in_json(json);
        if found.is_empty() {
            return None;
        }
        let mut text = json.to_vec();
        for half in &found {
            let replacement = if half.len() == REPLACEMENT.len() { REPLACEMENT } else { ESCAPED_REPLACEMENT };
            text[half.clone()].copy_from_slice(replacement);
        }
        Some(Self { text, replaced: found.len(), places })
    }

    /// What its sender should know.
    pub fn warning(&self) -> String {
        let Self { replaced, places, .. } = self;
        let characters = if *replaced == 1 { "half a surrogate pair" } else { "halves of surrogate pairs" };
        let place = if places.is_empty() { String::new() } else { format!(" in {}", places.join(", ")) };
        format!("{characters}{place} replaced by U+FFFD: {replaced}")
    }
}

/// A JSON text without halves of surrogate pairs.
pub fn mended_json(text: &str) -> Cow<'_, str> {
    let mended = MendedJson::of(text.as_bytes()).and_then(|mended| String::from_utf8(mended.text).ok());
    mended.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Whether a look at a text's structure is worth it.
fn may_hold_half(json: &[u8]) -> bool {
    let is_escape = |at: &[u8]| matches!(at, [b'\\', b'u', b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F']);
    json.windows(4).any(is_escape) || json.windows(2).any(|bytes| matches!(bytes, [0xed, 0xa0..=0xbf]))
}

/// The halves that have no other half in a text's string, whose start is given.
fn halves_in(text: &[u8], start: usize, halves: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'\\' | 0xed))) {
        at += next;
        let is_in_bytes = matches!(text.get(at..at + 3), Some([0xed, 0xa0..=0xbf, 0x80..=0xbf]));
        let (length, is_half) = match (text[at], escaped_unit(text, at), escaped_unit(text, at + 6)) {
            (0xed, ..) => (if is_in_bytes { 3 } else { 1 }, is_in_bytes),
            (_, Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, false),
            (_, Some(0xd800..=0xdfff), _) => (6, true),
            _ => (2, false),
        };
        if is_half {
            halves.push(start + at..start + at + length);
        }
        at += length;
    }
}

/// The same of JSON that stands in a string, where each backslash is written as two.
fn halves_in_json_in(text: &[u8], start: usize, halves: &mut Vec<Range<usize>>) {
    let unit = |at: usize| escaped_unit(text, at + 1).filter(|_| text.get(at) == Some(&b'\\'));
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += next;
        at += match (text.get(at + 1), text.get(at + 2..at + 4), unit(at), unit(at + 7)) {
            (Some(b'\\'), _, Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 14,
            (Some(b'\\'), _, Some(0xd800..=0xdfff), _) => {
                halves.push(start + at + 1..start + at + 7);
                7
            }
            // A backslash that is escaped in the JSON inside, or a quote.
            (Some(b'\\'), Some([b'\\', _]), ..) => 4,
            _ => 2,
        };
    }
}

/// The unit of UTF-16 that is escaped here, if one is.
fn escaped_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    u16::from_str_radix(digits?, 16).ok()
}

/// An object or a list that a place is inside of.
enum Level {
    /// With the text of the key that was read last.
    Object(Range<usize>),
    /// With the index of the item.
    List(usize),
}

/// What was found of a text.
#[derive(Default)]
struct Halves {
    found: Vec<Range<usize>>,
    /// The first places, each once.
    places: Vec<String>,
}

impl Halves {
    /// Looks through the strings of a text, which need not be JSON.
    fn in_json(json: &[u8]) -> Self {
        let (mut halves, mut levels) = (Self::default(), Vec::new());
        let mut key_is_next = false;
        let mut at = 0;
        while let Some(byte) = json.get(at) {
            match byte {
                b'{' => levels.push(Level::Object(0..0)),
                b'[' => levels.push(Level::List(0)),
                b'}' | b']' => drop(levels.pop()),
                _ => {}
            }
            match (byte, levels.last_mut()) {
                (b',', Some(Level::List(index))) => *index += 1,
                (b'{' | b',', Some(Level::Object(_))) => key_is_next = true,
                (b'[' | b':', _) => key_is_next = false,
                (b'"', level) => {
                    let text = string_at(json, at);
                    at = text.end;
                    if let (true, Some(Level::Object(key))) = (key_is_next, level) {
                        *key = text.clone();
                    }
                    halves.in_string(json, text, &levels);
                }
                _ => {}
            }
            at += 1;
        }
        halves
    }

    fn in_string(&mut self, json: &[u8], text: Range<usize>, levels: &[Level]) {
        let (before, start) = (self.found.len(), text.start);
        halves_in(&json[text.clone()], start, &mut self.found);
        if matches!(levels.last(), Some(Level::Object(key)) if &json[key.clone()] == b"arguments" && *key != text) {
            halves_in_json_in(&json[text], start, &mut self.found);
        }
        if self.found.len() == before || self.places.len() == NAMED_PLACES {
            return;
        }
        let place = place(json, levels);
        if !place.is_empty() && !self.places.contains(&place) {
            self.places.push(place);
        }
    }
}

/// What stands between the quotes of a string.
fn string_at(json: &[u8], quote: usize) -> Range<usize> {
    let mut end = quote + 1;
    while let Some(byte) = json.get(end).filter(|byte| **byte != b'"') {
        end += if *byte == b'\\' { 2 } else { 1 };
    }
    quote + 1..end.min(json.len())
}

fn place(json: &[u8], levels: &[Level]) -> String {
    let mut place = String::new();
    for level in levels {
        match level {
            Level::List(index) => place.push_str(&format!("[{index}]")),
            Level::Object(key) => {
                let key = &json[key.start..key.end.min(key.start + LONGEST_KEY)];
                // What every header can hold.
                let plain = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
                place.extend((!place.is_empty()).then_some('.').into_iter().chain(key.iter().map(plain)));
            }
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn mended(json: &str) -> (String, Vec<String>) {
        let mended = MendedJson::of(json.as_bytes()).unwrap();
        (String::from_utf8(mended.text).unwrap(), mended.places)
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_its_place_named() {
        let (text, places) = mended(
            r#"{"a":{"k":[1,2]},"messages":[{"content":"x"},{"content":"x \ud99c y\uDC00","more":["\ud83d\ude42","\uD83D"]}],"k\ud800":1}"#,
        );
        let expected = r#"{"a":{"k":[1,2]},"messages":[{"content":"x"},{"content":"x \ufffd y\ufffd","more":["\ud83d\ude42","\ufffd"]}],"k\ufffd":1}"#;
        assert_eq!(text, expected);
        assert_eq!(places, ["messages[1].content", "messages[1].more[1]", r"k\ud800"]);
        assert_eq!(mended(r#""\udc00\ud800""#), (r#""\ufffd\ufffd""#.to_owned(), Vec::new()));
    }

    #[test]
    fn halves_in_bytes_are_replaced_too() {
        let json = [b"{\"t\":\"a".as_slice(), &[0xed, 0xa0, 0xbd], b"b\"}"].concat();
        let mended = MendedJson::of(&json).unwrap();
        assert_eq!(std::str::from_utf8(&mended.text).unwrap(), "{\"t\":\"a\u{fffd}b\"}");
        assert_eq!(mended.places, ["t"]);
        assert_eq!(mended.warning(), "half a surrogate pair in t replaced by U+FFFD: 1");
        assert_eq!(MendedJson::of("{\"t\":\"\u{d55c}\u{d7ff}\"}".as_bytes()), None);
    }

    #[test]
    fn what_only_looks_like_half_a_pair_stays() {
        for text in
            [r#"{"a":"\\ud99c"}"#, r#""\ud83d\ude42""#, r#""\u00e9""#, "{}", "", r#""\ud8"#, r#"\"#, r#""\ug800""#]
        {
            assert_eq!(MendedJson::of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(mended(r#""\\\ud99c""#).0, r#""\\\ufffd""#);
    }

    #[test]
    fn halves_in_the_arguments_of_a_call_are_replaced_too() {
        let json = r#"{"c":{"arguments":"{\"a\":\"\\ud99c \\\\ud99c \\ud83d\\ude42 \\\"\\uDE42\"}","text":"\\ud99c"}}"#;
        let expected =
            r#"{"c":{"arguments":"{\"a\":\"\\ufffd \\\\ud99c \\ud83d\\ude42 \\\"\\ufffd\"}","text":"\\ud99c"}}"#;
        let (text, places) = mended(json);
        assert_eq!((text.as_str(), places), (expected, vec!["c.arguments".to_owned()]));
        let read: Value = serde_json::from_str(&text).unwrap();
        let arguments: Value = serde_json::from_str(read["c"]["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments["a"], "\u{fffd} \\ud99c \u{1f642} \"\u{fffd}");
    }

    #[test]
    fn a_text_full_of_halves_names_the_first_places() {
        let json = format!("[{}]", vec![r#""\ud800""#; 5000].join(","));
        let mended = MendedJson::of(json.as_bytes()).unwrap();
        assert_eq!((mended.replaced, mended.places.len()), (5000, NAMED_PLACES));
    }

    proptest! {
        #[test]
        fn what_python_writes_can_be_read_and_any_bytes_are_taken(
            units in proptest::collection::vec(prop_oneof![any::<u16>(), 0xd800_u16..=0xdfff], 0..40),
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let read: Value = serde_json::from_str(&mended_json(&format!("{{\"t\":\"{escaped}\"}}"))).unwrap();
            prop_assert_eq!(read["t"].as_str().unwrap(), String::from_utf16_lossy(&units));
            if let Some(mended) = MendedJson::of(&bytes) {
                prop_assert_eq!(mended.text.len(), bytes.len());
            }
        }
    }
}
