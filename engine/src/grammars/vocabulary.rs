/// What the tokens of a model stand for. The engine samples ids alone; only to keep an answer to a grammar, or to end it
/// with a text, must it know what they spell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    tokens: Vec<TokenText>,
}

/// What one token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenText {
    /// These bytes of text, which may be part of a character.
    Text(Vec<u8>),
    /// The control token of this name: never part of text, even of text that spells its name.
    Control(Vec<u8>),
    /// Nothing: the id has no token.
    Unused,
}

impl FromIterator<TokenText> for Vocabulary {
    /// From what the tokens 0, 1, 2 and so on stand for.
    fn from_iter<T: IntoIterator<Item = TokenText>>(tokens: T) -> Self {
        Self { tokens: tokens.into_iter().collect() }
    }
}

impl Vocabulary {
    /// What a token spells, control tokens by their names; nothing if there is no such token.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        match self.tokens.get(token as usize) {
            Some(TokenText::Text(bytes) | TokenText::Control(bytes)) => bytes,
            Some(TokenText::Unused) | None => &[],
        }
    }

    /// The tokens' bytes as grammars know them, for a model of `size` tokens: a marker stands before the names of control
    /// tokens, and a token without bytes is never sampled. The marker is no byte of UTF-8; a token of text that begins
    /// with it can be no part of any text, and gets no bytes.
    pub(crate) fn grammar_tokens(&self, size: usize) -> Vec<Vec<u8>> {
        let marker = toktrie::TokTrie::SPECIAL_TOKEN_MARKER;
        let word = |token: &TokenText| match token {
            TokenText::Text(bytes) if bytes.first() != Some(&marker) => bytes.clone(),
            TokenText::Control(name) => [&[marker], &name[..]].concat(),
            TokenText::Text(_) | TokenText::Unused => Vec::new(),
        };
        let mut words: Vec<Vec<u8>> = self.tokens.iter().take(size).map(word).collect();
        words.resize(size, Vec::new());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tell_control_tokens_from_text_and_are_as_many_as_the_model_has() {
        let tokens = [
            TokenText::Text(b"<end>".to_vec()),
            TokenText::Control(b"<end>".to_vec()),
            TokenText::Unused,
            TokenText::Text(vec![0xff]),
        ];
        let vocabulary: Vocabulary = tokens.into_iter().collect();
        let words: [&[u8]; 5] = [b"<end>", b"\xff<end>", b"", b"", b""];
        assert_eq!(vocabulary.grammar_tokens(5), words);
        assert_eq!(vocabulary.grammar_tokens(2), words[..2]);
    }
}
