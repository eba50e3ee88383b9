//! JSON text with known field names, written directly: a stream repeats the same few names with every token.

use serde::Serialize;

/// An object that is being written.
pub(crate) struct ObjectText<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> ObjectText<'o> {
    /// Begins an object.
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Adds a field. Its name must need no escaping.
    pub(crate) fn field(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        write_json(self.named(name), value);
    }

    /// Adds the name of a field, whose value is to be written behind it.
    pub(crate) fn named(&mut self, name: &'static str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Ends it.
    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes an array, whose items are written one by one.
pub(crate) fn write_array<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// Writes whatever can be written.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Neither our structures nor memory that is written to can fail.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn objects_and_arrays_of_any_length_are_json() {
        let mut out = Vec::new();
        let mut object = ObjectText::new(&mut out);
        ObjectText::new(object.named("none")).end();
        write_array(object.named("some"), &["a\"", "\n"], |text, out| write_json(out, text));
        write_array(object.named("empty"), &[0; 0], |number, out| write_json(out, number));
        object.field("null", &());
        object.end();
        let expected = json!({ "none": {}, "some": ["a\"", "\n"], "empty": [], "null": null });
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected);
        assert_eq!(out, expected.to_string().into_bytes());
    }
}
