//! Checksums that show whether a row has changed since it was recorded: one for each generation, and for each attempt the
//! number of its spans and generations and one digest of all of them. They are not keyed: they detect faults of disks and
//! programs, not an attacker who changes a row and its checksum together.

use sha2::{Digest, Sha256};
use sqlx::any::AnyRow;

use crate::Result;
use crate::database::sql::{column, to_integer};

/// Digests are added up in SQL as well, where neither they nor a sum of two may leave 63 bits.
pub(crate) const MASK: i64 = (1 << 60) - 1;

/// The key behind which a span's text has the one number that it is given when it is stored.
const SEQUENCE_ID: &str = r#""sequence_id":"#;

/// SHA-256 over values with their lengths, so that none of them runs into the next.
pub(crate) struct Fields(Sha256);

impl Fields {
    pub(crate) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(crate) fn push(&mut self, value: Option<&[u8]>) -> &mut Self {
        let length = value.map_or(u64::MAX, |value| value.len() as u64);
        self.0.update(length.to_le_bytes());
        self.0.update(value.unwrap_or_default());
        self
    }

    /// The first 60 bits.
    pub(crate) fn digest(self) -> i64 {
        let digest = self.0.finalize();
        digest.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes) & MASK)
    }
}

/// A generation's columns that do not change once it is recorded. The messages of its prompt, and the tokens that it
/// has from its parent, are in the hashes among them.
pub(crate) struct GenerationColumns<'c> {
    /// `generation_id`, `rollout_id`, `attempt_id`, `span_id`, `model`, `stop_reason`, `weights_versions`, `sampling`,
    /// `renderer`, `tokenizer`, `request_digest`.
    pub texts: [&'c str; 11],
    /// `branch_reason`, `defect`, `answer`.
    pub optional_texts: [Option<&'c str>; 3],
    /// What its parent does not hold.
    pub prompt_tokens: &'c [u8],
    pub sampled_tokens: &'c [u8],
    pub logprobs: Option<&'c [u8]>,
    pub context_length: i64,
    pub context_hash: &'c [u8],
    pub messages_length: Option<i64>,
    pub messages_hash: Option<&'c [u8]>,
    pub seed: i64,
    pub client_disconnected: bool,
}

impl<'c> GenerationColumns<'c> {
    /// Those of a row of `generations`.
    pub(crate) fn from_row(row: &'c AnyRow) -> Result<Self> {
        Ok(Self {
            texts: [
                column(row, "generation_id")?,
                column(row, "rollout_id")?,
                column(row, "attempt_id")?,
                column(row, "span_id")?,
                column(row, "model")?,
                column(row, "stop_reason")?,
                column(row, "weights_versions")?,
                column(row, "sampling")?,
                column(row, "renderer")?,
                column(row, "tokenizer")?,
                column(row, "request_digest")?,
            ],
            optional_texts: [column(row, "branch_reason")?, column(row, "defect")?, column(row, "answer")?],
            prompt_tokens: column(row, "prompt_tokens")?,
            sampled_tokens: column(row, "sampled_tokens")?,
            logprobs: column(row, "logprobs")?,
            context_length: column(row, "context_length")?,
            context_hash: column(row, "context_hash")?,
            messages_length: column(row, "messages_length")?,
            messages_hash: column(row, "messages_hash")?,
            seed: column(row, "seed")?,
            client_disconnected: column::<i64>(row, "client_gone")? != 0,
        })
    }

    /// Its last bit is `client_disconnected`, which may change later.
    pub(crate) fn checksum(&self) -> i64 {
        let mut fields = Fields::new();
        self.texts.iter().for_each(|text| _ = fields.push(Some(text.as_bytes())));
        self.optional_texts.iter().for_each(|text| _ = fields.push(text.map(str::as_bytes)));
        fields.push(Some(self.prompt_tokens)).push(Some(self.sampled_tokens)).push(self.logprobs);
        fields.push(Some(&self.context_length.to_le_bytes())).push(Some(self.context_hash));
        let messages_length = self.messages_length.map(i64::to_le_bytes);
        fields.push(messages_length.as_ref().map(|bytes| &bytes[..])).push(self.messages_hash);
        fields.push(Some(&self.seed.to_le_bytes()));
        2 * fields.digest() + i64::from(self.client_disconnected)
    }
}

/// The digest of a span's JSON text but for its sequence id, given as the text before and after the number.
pub(crate) fn span_digest(before: &str, after: &str) -> i64 {
    let mut fields = Fields::new();
    fields.push(Some(before.as_bytes())).push(Some(after.as_bytes()));
    fields.digest()
}

/// Cuts a span's JSON text around its sequence id. Ids come before it, and a quote inside them is escaped, so that they
/// do not hold the key.
pub(crate) fn around_sequence_id(body: &str) -> (&str, &str) {
    let (before, after) = body.split_at(body.find(SEQUENCE_ID).map_or(body.len(), |start| start + SEQUENCE_ID.len()));
    (before, after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

/// What rows add to their attempt: how many they are, and the sum of their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub spans: i64,
    pub generations: i64,
    pub digest: i64,
}

impl Recorded {
    /// A span, by its text.
    pub(crate) fn span(body: &str, sequence_id: u64) -> Result<Self> {
        let (before, after) = around_sequence_id(body);
        Self::span_with(span_digest(before, after), sequence_id)
    }

    /// A span, by its digest.
    pub(crate) fn span_with(digest: i64, sequence_id: u64) -> Result<Self> {
        let sequence_id = to_integer("sequence_id", sequence_id)?;
        Ok(Self { spans: 1, generations: 0, digest: add(digest, sequence_id) })
    }

    /// A generation, by its checksum; one of an older store has none.
    pub(crate) fn generation(checksum: Option<i64>) -> Self {
        Self { spans: 0, generations: 1, digest: checksum.unwrap_or_default() / 2 }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            spans: self.spans + other.spans,
            generations: self.generations + other.generations,
            digest: add(self.digest, other.digest),
        }
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            spans: self.spans - other.spans,
            generations: self.generations - other.generations,
            digest: self.digest.wrapping_sub(other.digest) & MASK,
        }
    }
}

/// The sum of two digests.
pub(crate) fn add(one: i64, other: i64) -> i64 {
    one.wrapping_add(other) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spans_digest_is_that_of_its_text_with_the_sequence_id() {
        let body = |sequence_id: u64| format!(r#"{{"span_id":"a","sequence_id":{sequence_id},"name":"x"}}"#);
        let one = Recorded::span(&body(1), 1).unwrap();
        assert_eq!(one, Recorded::span_with(one.digest - 1, 1).unwrap());
        assert_ne!(one.digest, Recorded::span(&body(2), 2).unwrap().digest);
        assert_ne!(one.digest, Recorded::span(&body(1).replace('x', "y"), 1).unwrap().digest);
        let text = r#"{"rollout_id":"\"sequence_id\":5","sequence_id":12,"name":"\"sequence_id\":7"}"#;
        assert_eq!(
            around_sequence_id(text),
            (r#"{"rollout_id":"\"sequence_id\":5","sequence_id":"#, r#","name":"\"sequence_id\":7"}"#)
        );
        assert_eq!(around_sequence_id("{}"), ("{}", ""));
    }

    #[test]
    fn what_is_taken_out_again_leaves_what_was_there() {
        let spans = [(MASK, 1), (MASK, u64::from(u32::MAX)), (5, i64::MAX.cast_unsigned())];
        let spans = spans.map(|(digest, sequence_id)| Recorded::span_with(digest, sequence_id).unwrap());
        let all = spans.iter().fold(Recorded::generation(Some(i64::MAX)), |all, span| all.and(*span));
        assert_eq!(all.without(spans[1]).and(spans[1]), all);
        assert_eq!((all.spans, all.generations), (3, 1));
        assert!((0..=MASK).contains(&all.digest));
    }
}
