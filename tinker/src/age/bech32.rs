/// The characters of Bech32, each for five bits (BIP 173).
const CHARACTERS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// What is between a text's prefix and its data.
const SEPARATOR: char = '1';

/// Characters of the checksum.
const CHECKSUM: usize = 6;

/// The bytes of a Bech32 text in small letters with this prefix; `None` where it is none, or its checksum is wrong.
pub(super) fn decode(text: &str, prefix: &str) -> Option<Vec<u8>> {
    let data = text.strip_prefix(prefix)?.strip_prefix(SEPARATOR)?;
    let value = |byte: u8| CHARACTERS.iter().position(|known| *known == byte).and_then(|at| u8::try_from(at).ok());
    let values = data.bytes().map(value).collect::<Option<Vec<u8>>>()?;
    if checksum(prefix, &values) != 1 {
        return None;
    }
    regrouped(values.get(..values.len().checked_sub(CHECKSUM)?)?)
}

/// Groups of five bits as bytes. What is left over must be less than a group, and zero.
fn regrouped(values: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(values.len() * 5 / 8);
    let (mut bits, mut count) = (0_u32, 0);
    for value in values {
        bits = bits << 5 | u32::from(*value);
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (count < 5 && bits == 0).then_some(bytes)
}

/// BIP 173's polynomial of a prefix and values; 1 where the last of these are the right checksum.
fn checksum(prefix: &str, values: &[u8]) -> u32 {
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let all = high.chain([0]).chain(low).chain(values.iter().copied());
    all.fold(1, |sum: u32, value| {
        let shifted = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
        let generators = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
        let chosen = generators.iter().enumerate().filter(|(bit, _)| sum >> (25 + bit) & 1 == 1);
        chosen.fold(shifted, |sum, (_, generator)| sum ^ generator)
    })
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn the_texts_of_bip_173_are_told_from_broken_ones() {
        assert_eq!(decode("a12uel5l", "a"), Some(Vec::new()));
        assert_eq!(
            decode("abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw", "abcdef").map(|bytes| bytes.len()),
            Some(20)
        );
        for (broken, prefix) in [
            ("a12uel5m", "a"),
            ("A12UEL5L", "a"),
            ("a12uel5l", "b"),
            ("a1b2uel5l", "a"),
            ("a1", "a"),
            ("a1qqq", "a"),
            ("", "a"),
            ("ä12uel5l", "ä"),
        ] {
            assert_eq!(decode(broken, prefix), None, "{broken}");
        }
    }
}
