use std::collections::HashMap;

use regex::Regex;

use crate::tokenizer::piece::Piece;

/// Finds control tokens in text, for tokenizers in which each of them is its text and nothing more: no white space around
/// it, no end of a word, no other spelling of it.
#[derive(Debug)]
pub(crate) struct ControlFinder {
    /// Any of the texts; of those that begin together, the longest.
    any: Regex,
    ids: HashMap<String, u32>,
}

impl ControlFinder {
    /// `None` where the tokenizer has tokens that must be looked for in another way.
    pub(crate) fn of(tokenizer: &tokenizers::Tokenizer) -> Option<Self> {
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let is_plain = |token: &tokenizers::AddedToken| {
            !(token.single_word || token.lstrip || token.rstrip || token.normalized || token.content.is_empty())
        };
        if added.is_empty() || !added.values().all(is_plain) {
            return None;
        }
        let mut texts: Vec<&str> = added.values().map(|token| token.content.as_str()).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let any = texts.into_iter().map(regex::escape).collect::<Vec<_>>().join("|");
        // Too many of them are too much for one pattern.
        let any = Regex::new(&any).ok()?;
        let ids = added.iter().map(|(id, token)| (token.content.clone(), *id)).collect();
        Some(Self { any, ids })
    }

    /// Cuts text into control tokens and the text between them.
    pub(crate) fn split(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut done = 0;
        let push_text = |pieces: &mut Vec<Piece>, text: &str| {
            if !text.is_empty() {
                pieces.push(Piece::Text(text.to_owned()));
            }
        };
        for found in self.any.find_iter(text) {
            let Some(id) = self.ids.get(found.as_str()) else { continue };
            push_text(&mut pieces, &text[done..found.start()]);
            pieces.push(Piece::Control(*id));
            done = found.end();
        }
        push_text(&mut pieces, &text[done..]);
        pieces
    }
}
