//! Marks of reasoning in the text of an answer, as clients and published data spell them.

use crate::tokenizer::piece::Piece;
use crate::{RenderError, Tokenizer};

/// What opens and closes reasoning, in the families that have tokens for it.
const PAIRS: [[&str; 2]; 3] = [["<think>", "</think>"], ["◁think▷", "◁/think▷"], ["[THINK]", "[/THINK]"]];

/// A text that begins with marked reasoning, in two: the reasoning, and what stands behind it. Both without the white space
/// around them.
pub fn split_reasoning(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    PAIRS.iter().find_map(|[open, close]| {
        let (reasoning, answer) = text.strip_prefix(open)?.split_once(close)?;
        Some((reasoning.trim(), answer.trim_start()))
    })
}

/// Whether a text begins with a mark that opens reasoning.
pub fn begins_reasoning(text: &str) -> bool {
    PAIRS.iter().any(|[open, _]| text.trim_start().starts_with(open))
}

/// Tokens that close reasoning, as far as a tokenizer has such.
pub fn reasoning_ends(tokenizer: &Tokenizer) -> Vec<u32> {
    ReasoningMarks::of(tokenizer).close.into_iter().map(|(_, token)| token).collect()
}

/// The token that closes the reasoning within which a turn was cut off; `None` where it was not. `generation_prompt` gives the
/// tokens before the turn, which may have opened it.
pub(crate) fn unclosed_reasoning(
    tokenizer: &Tokenizer,
    sampled: &[u32],
    generation_prompt: impl FnOnce() -> Result<Vec<u32>, RenderError>,
) -> Result<Option<u32>, RenderError> {
    let id = |text: &str| tokenizer.token_to_id(text);
    let Some((open, close)) = PAIRS.iter().find_map(|[open, close]| id(open).zip(id(close))) else { return Ok(None) };
    let last = |tokens: &[u32]| tokens.iter().rfind(|token| [open, close].contains(token)).copied();
    let last_mark = match last(sampled) {
        None if sampled.is_empty() => None,
        None => last(&generation_prompt()?),
        mark => mark,
    };
    Ok((last_mark == Some(open)).then_some(close))
}

/// What closes reasoning, in formats that set it apart by line breaks.
pub(crate) fn closing_of_reasoning(close: u32) -> [Piece; 3] {
    [Piece::Text("\n".to_owned()), Piece::Control(close), Piece::Text("\n\n".to_owned())]
}

/// Control tokens that open and close reasoning, such as `<think>` and `</think>`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReasoningMarks {
    open: Vec<(String, u32)>,
    close: Vec<(String, u32)>,
}

/// Where the marks stand of an answer that begins with reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeadingReasoning {
    pub(crate) open: MarkPlace,
    pub(crate) close: MarkPlace,
}

/// A mark in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkPlace {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) token: u32,
}

impl ReasoningMarks {
    /// The marks that a tokenizer has tokens for.
    pub(crate) fn of(tokenizer: &Tokenizer) -> Self {
        let of_reasoning = |text: &str| {
            let text = text.to_lowercase();
            text.contains("think") || text.contains("thought") || text.contains("reasoning")
        };
        let tokens = tokenizer.control_tokens().filter(|(text, _)| of_reasoning(text));
        let known = tokens.filter_map(|(text, _)| Some((text.to_owned(), tokenizer.token_to_id(text)?)));
        let (close, open) = known.partition(|(text, _): &(String, u32)| text.contains('/'));
        Self { open, close }
    }

    /// The texts of all marks.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.open.iter().chain(&self.close).map(|(text, _)| text.as_str())
    }

    /// The marks of an answer that begins with reasoning and goes on behind it. Reasoning without an end is text.
    pub(crate) fn leading(&self, answer: &str) -> Option<LeadingReasoning> {
        let start = answer.len() - answer.trim_start().len();
        let (text, token) = self.open.iter().find(|(text, _)| answer[start..].starts_with(text.as_str()))?;
        let open = MarkPlace { start, end: start + text.len(), token: *token };
        let closing = text.strip_prefix(['<', '[']).unwrap_or(text);
        // The one that belongs to it: `</think>` to `<think>`.
        let (text, token) = self.close.iter().find(|(text, _)| text.replacen('/', "", 1).ends_with(closing))?;
        let start = open.end + answer[open.end..].find(text.as_str())?;
        Some(LeadingReasoning { open, close: MarkPlace { start, end: start + text.len(), token: *token } })
    }

    /// An answer as text and, where it begins with reasoning, the marks of that.
    pub(crate) fn pieces(&self, answer: &str) -> Vec<Piece> {
        let Some(LeadingReasoning { open, close }) = self.leading(answer) else {
            return vec![Piece::Text(answer.to_owned())];
        };
        let text = |start: usize, end: usize| Piece::Text(answer[start..end].to_owned());
        let mut pieces = vec![
            text(0, open.start),
            Piece::Control(open.token),
            text(open.end, close.start),
            Piece::Control(close.token),
            text(close.end, answer.len()),
        ];
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        pieces
    }

    /// The tokens of an answer.
    pub(crate) fn encode(&self, tokenizer: &Tokenizer, answer: &str) -> Result<Vec<u32>, RenderError> {
        match self.leading(answer) {
            None => tokenizer.encode_ordinary(answer),
            Some(_) => tokenizer.encode_pieces(&self.pieces(answer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vector_tokenizer;

    #[test]
    fn an_answer_that_begins_with_reasoning_has_its_marks() {
        let tokenizer = vector_tokenizer("qwen3");
        let marks = ReasoningMarks::of(&tokenizer);
        let tokens = |text: &str| marks.encode(&tokenizer, text).unwrap();
        let real = |text: &str| tokenizer.encode_with_specials(text).unwrap();
        for text in ["<think>a</think>b", "\n<think>\n\n</think>\n\nb"] {
            assert_eq!(tokens(text), real(text), "{text:?}");
        }
        for text in ["<think>a", "a</think>b", "x <think>a</think>b", "<tool_call>", "</think><think>"] {
            assert_eq!(tokens(text), tokenizer.encode_ordinary(text).unwrap(), "{text:?}");
        }
        // Marks behind the first end are text, those of turns everywhere.
        let marked = tokens("<think>a<think>b<|im_end|></think>c</think><think>");
        let control: Vec<u32> = marked.iter().copied().filter(|token| tokenizer.is_control(*token)).collect();
        assert_eq!(control, real("<think></think>"));
    }
}
