//! The few kinds of MessagePack that batches are made of (<https://github.com/msgpack/msgpack/blob/master/spec.md>).

/// Writes values one after another; a list is its length and then its entries.
#[derive(Debug, Default)]
pub(super) struct MessagePack(Vec<u8>);

impl MessagePack {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Begins a list of so many values.
    pub(super) fn list(&mut self, length: usize) {
        match u16::try_from(length) {
            Ok(length) if length < 16 => self.0.push(0x90 | length as u8),
            Ok(length) => self.tagged(0xdc, &length.to_be_bytes()),
            Err(_) => self.tagged(0xdd, &(length as u32).to_be_bytes()),
        }
    }

    pub(super) fn integer(&mut self, value: u32) {
        match value {
            0..=0x7f => self.0.push(value as u8),
            0x80..=0xff => self.tagged(0xcc, &[value as u8]),
            0x100..=0xffff => self.tagged(0xcd, &(value as u16).to_be_bytes()),
            _ => self.tagged(0xce, &value.to_be_bytes()),
        }
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.0.push(if value { 0xc3 } else { 0xc2 });
    }

    pub(super) fn float(&mut self, value: f32) {
        self.tagged(0xca, &value.to_be_bytes());
    }

    /// A text of fewer than 256 bytes.
    pub(super) fn short_text(&mut self, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(usize::from(u8::MAX))];
        match bytes.len() as u8 {
            length @ 0..=31 => self.0.push(0xa0 | length),
            length => self.tagged(0xd9, &[length]),
        }
        self.0.extend_from_slice(bytes);
    }

    /// A list of values that `write` writes.
    pub(super) fn list_of<T: Copy>(&mut self, values: &[T], write: impl Fn(&mut Self, T)) {
        self.list(values.len());
        values.iter().for_each(|&value| write(self, value));
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_the_shortest_form_of_its_kind() {
        let bytes = |write: fn(&mut MessagePack)| {
            let mut pack = MessagePack::default();
            write(&mut pack);
            pack.into_bytes()
        };
        assert_eq!(bytes(|pack| pack.list(3)), [0x93]);
        assert_eq!(bytes(|pack| pack.list(16)), [0xdc, 0, 16]);
        assert_eq!(bytes(|pack| pack.list(70_000)), [0xdd, 0, 1, 0x11, 0x70]);
        assert_eq!(bytes(|pack| pack.integer(127)), [127]);
        assert_eq!(bytes(|pack| pack.integer(200)), [0xcc, 200]);
        assert_eq!(bytes(|pack| pack.integer(300)), [0xcd, 1, 44]);
        assert_eq!(bytes(|pack| pack.integer(151_643)), [0xce, 0, 2, 0x50, 0x5b]);
        assert_eq!(bytes(|pack| pack.boolean(true)), [0xc3]);
        assert_eq!(bytes(|pack| pack.float(-0.5)), [0xca, 0xbf, 0, 0, 0]);
        assert_eq!(bytes(|pack| pack.short_text("ab")), [0xa2, b'a', b'b']);
        assert_eq!(bytes(|pack| pack.short_text(&"a".repeat(40)))[..2], [0xd9, 40]);
    }
}
