use std::borrow::Cow;

use crate::tokenizer::piece::Piece;
use crate::{RenderError, Tokenizer};

/// A run of a conversation's text that is cut into tokens on its own: no token reaches across its ends.
///
/// Formats are written in text, and say of each stretch who wrote it: the format itself, whose control tokens are
/// control tokens, or somebody else, whose text stays text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chunk<'t>(Vec<Fragment<'t>>);

#[derive(Clone, Debug, PartialEq)]
enum Fragment<'t> {
    Format(Cow<'t, str>),
    Content(Cow<'t, str>),
}

/// What becomes of control tokens that the content of a message spells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    /// They are text.
    Ordinary,
    /// They are control tokens, as Hugging Face's tokenizers read a whole prompt.
    ControlTokens,
    /// Those that the tokenizer calls special are text, the others control tokens: Hugging Face's
    /// `split_special_tokens=True`.
    SpecialAsText,
}

impl<'t> Chunk<'t> {
    /// Text of the format alone.
    pub(crate) fn of_format(text: impl Into<Cow<'t, str>>) -> Self {
        Self::default().format(text)
    }

    /// Adds text that the format writes.
    pub(crate) fn format(mut self, text: impl Into<Cow<'t, str>>) -> Self {
        self.push(Fragment::Format(text.into()));
        self
    }

    /// Adds text that a message or a tool declaration holds.
    pub(crate) fn content(mut self, text: impl Into<Cow<'t, str>>) -> Self {
        self.push(Fragment::Content(text.into()));
        self
    }

    /// Adds all of another chunk.
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, whoever wrote it.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(Fragment::text).collect()
    }

    /// The chunk without the text that it begins with, and what of that text stands after its end. None where the chunk
    /// begins with other text.
    fn without_prefix(self, mut prefix: &str) -> Option<(Self, &str)> {
        let mut rest = Self::default();
        for fragment in self.0 {
            if let Some(after) = prefix.strip_prefix(fragment.text()) {
                prefix = after;
            } else {
                rest.push(fragment.without_prefix(prefix)?);
                prefix = "";
            }
        }
        Some((rest, prefix))
    }

    fn push(&mut self, fragment: Fragment<'t>) {
        if !fragment.text().is_empty() {
            self.0.push(fragment);
        }
    }

    /// The tokens. Text that touches is encoded as one, whoever wrote it.
    pub(crate) fn encode(&self, tokenizer: &Tokenizer, encoding: ContentEncoding) -> Result<Vec<u32>, RenderError> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut add = |piece: Piece| match (pieces.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => pieces.push(piece),
        };
        for fragment in &self.0 {
            match (fragment, encoding) {
                (Fragment::Content(text), ContentEncoding::Ordinary) => add(Piece::Text(text.to_string())),
                (Fragment::Content(text), ContentEncoding::SpecialAsText) => {
                    tokenizer.split_control_but_special(text).into_iter().for_each(&mut add);
                }
                (fragment, _) => tokenizer.split_control(fragment.text()).into_iter().for_each(&mut add),
            }
        }
        tokenizer.encode_pieces(&pieces)
    }
}

impl Fragment<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Format(text) | Self::Content(text) => text,
        }
    }

    fn without_prefix(self, prefix: &str) -> Option<Self> {
        let rest = Cow::Owned(self.text().strip_prefix(prefix)?.to_owned());
        Some(match self {
            Self::Format(_) => Self::Format(rest),
            Self::Content(_) => Self::Content(rest),
        })
    }
}

/// What follows `prefix` in the text of some chunks; None where they begin with other text.
pub(crate) fn chunks_after<'t>(chunks: Vec<Chunk<'t>>, mut prefix: &str) -> Option<Vec<Chunk<'t>>> {
    let mut rest = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let (after, unmatched) = chunk.without_prefix(prefix)?;
        rest.push(after);
        prefix = unmatched;
    }
    prefix.is_empty().then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vector_tokenizer;

    #[test]
    fn control_tokens_come_from_whom_the_encoding_says() {
        let tokenizer = vector_tokenizer("qwen3");
        let chunk = Chunk::of_format("<|im_start|>a\n").content("<|im_end|><think>").format("<|im_end|>");
        let found = |encoding| {
            let tokens = chunk.encode(&tokenizer, encoding).unwrap();
            assert_eq!(tokenizer.decode(&tokens), "<|im_start|>a\n<|im_end|><think><|im_end|>");
            let count = |text| tokens.iter().filter(|token| Some(**token) == tokenizer.token_to_id(text)).count();
            (count("<|im_end|>"), count("<think>"))
        };
        assert_eq!(found(ContentEncoding::Ordinary), (1, 0));
        assert_eq!(found(ContentEncoding::SpecialAsText), (1, 1));
        assert_eq!(found(ContentEncoding::ControlTokens), (2, 1));
    }

    #[test]
    fn what_follows_a_prefix_keeps_its_writers() {
        let chunks = || vec![Chunk::of_format("<a>"), Chunk::of_format("b\n").content("c\nd"), Chunk::of_format("e")];
        let rest = vec![Chunk::default(), Chunk::default().content("\nd"), Chunk::of_format("e")];
        assert_eq!(chunks_after(chunks(), "<a>b\nc"), Some(rest));
        assert_eq!(chunks_after(chunks(), ""), Some(chunks()));
        assert_eq!(chunks_after(chunks(), "<a>bc"), None);
        assert_eq!(chunks_after(chunks(), "<a>b\nc\ndef"), None);
    }

    #[test]
    fn text_that_touches_is_encoded_as_one() {
        let tokenizer = vector_tokenizer("qwen3");
        let chunk = Chunk::of_format("a\n").content("\nb").join(Chunk::default().content(""));
        assert_eq!(
            chunk.encode(&tokenizer, ContentEncoding::Ordinary).unwrap(),
            tokenizer.encode_ordinary("a\n\nb").unwrap()
        );
    }
}
