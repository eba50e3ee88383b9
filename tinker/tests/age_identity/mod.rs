//! An X25519 identity of age, which reads the files that are encrypted to it.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, dead_code)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};
use x25519_dalek::{PublicKey, StaticSecret};

/// The characters of Bech32, each for five bits.
const CHARACTERS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// Bytes of a sealed piece of a payload.
const SEALED_PIECE: usize = 64 * 1024 + 16;

/// An identity.
pub struct Identity(StaticSecret);

impl Identity {
    /// A new one.
    pub fn generate() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).unwrap();
        Self(StaticSecret::from(key))
    }

    /// Reads its text, as `age-keygen` writes it. The checksum is not looked at.
    pub fn parse(text: &str) -> Self {
        let data = text.to_ascii_lowercase();
        let data = data.strip_prefix("age-secret-key-1").unwrap();
        let values = data.bytes().map(|byte| CHARACTERS.iter().position(|known| *known == byte).unwrap() as u32);
        let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
        for value in values {
            (bits, count) = (bits << 5 | value, count + 5);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
                bits &= (1 << count) - 1;
            }
        }
        let key: [u8; 32] = bytes[..32].try_into().unwrap();
        Self(StaticSecret::from(key))
    }

    /// The text of its public half.
    pub fn recipient(&self) -> String {
        Self::text_of_key(PublicKey::from(&self.0).as_bytes())
    }

    /// A public key as a recipient.
    pub fn text_of_key(key: &[u8; 32]) -> String {
        let (mut values, mut bits, mut count) = (Vec::new(), 0_u32, 0);
        for byte in key {
            (bits, count) = (bits << 8 | u32::from(*byte), count + 8);
            while count >= 5 {
                count -= 5;
                values.push(bits >> count & 31);
                bits &= (1 << count) - 1;
            }
        }
        values.push(bits << (5 - count) & 31);
        let expanded = [3, 3, 3, 0, 1, 7, 5].into_iter().chain(values.iter().copied());
        let sum = expanded.chain([0; 6]).fold(1_u32, |sum, value| {
            let mut next = (sum & 0x01ff_ffff) << 5 ^ value;
            for (bit, generator) in [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3].iter().enumerate()
            {
                next ^= if sum >> (25 + bit) & 1 == 1 { *generator } else { 0 };
            }
            next
        }) ^ 1;
        values.extend((0..6).map(|index| sum >> (5 * (5 - index)) & 31));
        let data = values.iter().map(|value| char::from(CHARACTERS[*value as usize]));
        "age1".chars().chain(data).collect()
    }

    /// What a file holds; `None` where it is not for this identity, or is not as it was written.
    pub fn decrypt(&self, file: &[u8]) -> Option<Vec<u8>> {
        let mark = file.windows(5).position(|bytes| bytes == b"\n--- ")?;
        let end = mark + 1 + file[mark + 1..].iter().position(|byte| *byte == b'\n')?;
        let header = std::str::from_utf8(&file[..end]).ok()?;
        let file_key = self.file_key(header.strip_prefix("age-encryption.org/v1\n")?)?;
        let code = STANDARD_NO_PAD.decode(&header[mark + 5..]).ok()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &derived(&[], &file_key, "header"));
        hmac::verify(&key, &header.as_bytes()[..mark + 4], &code).ok()?;
        let (nonce, payload) = file[end + 1..].split_at_checked(16)?;
        let key = derived(nonce, &file_key, "payload");
        let pieces = payload.len().div_ceil(SEALED_PIECE).max(1);
        let mut plain = Vec::new();
        for number in 0..pieces {
            let sealed = &payload[number * SEALED_PIECE..payload.len().min((number + 1) * SEALED_PIECE)];
            let mut nonce = [0; 12];
            nonce[3..11].copy_from_slice(&(number as u64).to_be_bytes());
            nonce[11] = (number + 1 == pieces).into();
            plain.extend(opened(&key, nonce, sealed)?);
        }
        Some(plain)
    }

    /// The file's key, by the stanza that is for this identity.
    fn file_key(&self, header: &str) -> Option<Vec<u8>> {
        let public = PublicKey::from(&self.0);
        let lines: Vec<&str> = header.lines().collect();
        lines.windows(2).find_map(|pair| {
            let share = STANDARD_NO_PAD.decode(pair[0].strip_prefix("-> X25519 ")?).ok()?;
            let shared = self.0.diffie_hellman(&PublicKey::from(<[u8; 32]>::try_from(share.clone()).ok()?));
            let salt = [&share[..], public.as_bytes()].concat();
            let key = derived(&salt, shared.as_bytes(), "age-encryption.org/v1/X25519");
            opened(&key, [0; 12], &STANDARD_NO_PAD.decode(pair[1]).ok()?)
        })
    }
}

fn derived(salt: &[u8], secret: &[u8], purpose: &str) -> [u8; 32] {
    let mut key = [0; 32];
    let pseudorandom = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    pseudorandom.expand(&[purpose.as_bytes()], hkdf::HKDF_SHA256).unwrap().fill(&mut key).unwrap();
    key
}

fn opened(key: &[u8; 32], nonce: [u8; 12], sealed: &[u8]) -> Option<Vec<u8>> {
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).unwrap());
    let mut bytes = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    Some(key.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?.to_vec())
}
