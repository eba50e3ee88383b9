use std::io::{self, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::error::Unspecified;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{hkdf, hmac};

use super::recipient::Recipient;

/// The first line of a file.
const VERSION: &str = "age-encryption.org/v1";

/// Plain bytes of a piece of the payload.
const PIECE: usize = 64 * 1024;

/// Encrypts what a reader has to every recipient, each of whom can read all of it.
///
/// # Errors
///
/// What cannot be read or written; a recipient that is no key of the curve; a machine without randomness.
pub(crate) fn encrypt(recipients: &[Recipient], plain: &mut impl Read, encrypted: &mut impl Write) -> io::Result<()> {
    let random = SystemRandom::new();
    let (mut file_key, mut nonce) = ([0; 16], [0; 16]);
    random.fill(&mut file_key).and_then(|()| random.fill(&mut nonce)).map_err(|_| no_randomness())?;
    let mut header = format!("{VERSION}\n");
    for recipient in recipients {
        let wrapped = stanza(recipient, &file_key, &random)
            .map_err(|_| io::Error::other(format!("{} is no key that can be encrypted to", recipient.text())))?;
        header.push_str(&wrapped);
    }
    header.push_str("---");
    let key = derived(&[], &file_key, "header").map_err(|_| refused())?;
    let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), header.as_bytes());
    writeln!(encrypted, "{header} {}", STANDARD_NO_PAD.encode(code))?;
    encrypted.write_all(&nonce)?;
    let key = derived(&nonce, &file_key, "payload").map_err(|_| refused())?;
    encrypt_payload(&sealing(&key).map_err(|_| refused())?, plain, encrypted)
}

/// The lines by which a recipient comes to the file's key: a key of one use, and the file's under what both agree on.
fn stanza(recipient: &Recipient, file_key: &[u8; 16], random: &SystemRandom) -> Result<String, Unspecified> {
    let secret = EphemeralPrivateKey::generate(&X25519, random)?;
    let share = secret.compute_public_key()?;
    let salt = [share.as_ref(), &recipient.key].concat();
    let wrapping = agree_ephemeral(secret, &UnparsedPublicKey::new(&X25519, recipient.key), |shared| {
        derived(&salt, shared, "age-encryption.org/v1/X25519")
    })??;
    let mut body = file_key.to_vec();
    // The key seals nothing else, so that the nonce may be the same each time.
    sealing(&wrapping)?.seal_in_place_append_tag(
        Nonce::assume_unique_for_key([0; NONCE_LEN]),
        Aad::empty(),
        &mut body,
    )?;
    Ok(format!("-> X25519 {}\n{}\n", STANDARD_NO_PAD.encode(share), STANDARD_NO_PAD.encode(body)))
}

/// A key by HKDF with SHA-256 (RFC 5869).
fn derived(salt: &[u8], secret: &[u8], purpose: &str) -> Result<[u8; 32], Unspecified> {
    let mut key = [0; 32];
    let pseudorandom = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    pseudorandom.expand(&[purpose.as_bytes()], hkdf::HKDF_SHA256)?.fill(&mut key)?;
    Ok(key)
}

fn sealing(key: &[u8; 32]) -> Result<LessSafeKey, Unspecified> {
    Ok(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key)?))
}

/// The payload in pieces, each sealed under its number and whether it is the last. Only a file without a byte has an empty one.
fn encrypt_payload(key: &LessSafeKey, plain: &mut impl Read, encrypted: &mut impl Write) -> io::Result<()> {
    let mut piece = next_piece(plain)?;
    for number in 0_u64.. {
        let next = next_piece(plain)?;
        let mut nonce = [0; NONCE_LEN];
        nonce[3..11].copy_from_slice(&number.to_be_bytes());
        nonce[11] = next.is_empty().into();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut piece)
            .map_err(|_| refused())?;
        encrypted.write_all(&piece)?;
        if next.is_empty() {
            break;
        }
        piece = next;
    }
    Ok(())
}

fn next_piece(plain: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE + CHACHA20_POLY1305.tag_len());
    plain.take(PIECE as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

fn no_randomness() -> io::Error {
    io::Error::other("this machine gives no random bytes")
}

fn refused() -> io::Error {
    io::Error::other("the bytes cannot be encrypted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age_identity::Identity;

    /// The owner of the pinned files, which age itself has encrypted (its Rust edition, 0.11.5).
    const IDENTITY: &str = "AGE-SECRET-KEY-1VFA2DET9PRH0YR6T0F5KQNA9PQN927HJZKKVTXRSXRMVGHNQ070SYKE0CM";

    fn encrypted(plain: &[u8], recipients: &[&Identity]) -> Vec<u8> {
        let recipients: Vec<Recipient> =
            recipients.iter().map(|identity| identity.recipient().parse().unwrap()).collect();
        let mut encrypted = Vec::new();
        encrypt(&recipients, &mut &plain[..], &mut encrypted).unwrap();
        encrypted
    }

    #[test]
    fn the_identity_that_reads_our_files_reads_those_that_age_encrypted() {
        let identity = Identity::parse(IDENTITY);
        let short = identity.decrypt(include_bytes!("../../tests/vectors/age/two_recipients.age"));
        assert_eq!(short.as_deref(), Some(&b"encrypted by age itself"[..]));
        let whole_piece = identity.decrypt(include_bytes!("../../tests/vectors/age/one_piece.age"));
        assert_eq!(whole_piece, Some(vec![7; PIECE]));
        let empty = identity.decrypt(include_bytes!("../../tests/vectors/age/empty.age"));
        assert_eq!(empty, Some(Vec::new()));
        assert_eq!(Identity::generate().decrypt(include_bytes!("../../tests/vectors/age/empty.age")), None);
    }

    #[test]
    fn files_of_every_length_are_read_by_each_recipient_and_by_nobody_else() {
        let [first, second, other] = [(); 3].map(|()| Identity::generate());
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 5] {
            let plain: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let file = encrypted(&plain, &[&first, &second]);
            for identity in [&first, &second] {
                assert!(identity.decrypt(&file).as_ref() == Some(&plain), "{length}");
            }
            assert_eq!(other.decrypt(&file), None);
        }
    }

    #[test]
    fn a_changed_file_is_not_read() {
        let identity = Identity::generate();
        let file = encrypted(b"weights", &[&identity]);
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert_eq!(identity.decrypt(&changed), None, "byte {at}");
        }
        assert_eq!(identity.decrypt(&file[..file.len() - 1]), None);
    }

    #[test]
    fn a_point_without_a_secret_is_refused() {
        // Zero, which everybody agrees on zero with.
        let recipient: Recipient = Identity::text_of_key(&[0; 32]).parse().unwrap();
        let error = encrypt(&[recipient], &mut &b"weights"[..], &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("is no key that can be encrypted to"), "{error}");
    }
}
