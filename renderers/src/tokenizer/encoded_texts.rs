//! Texts that come again and again, such as the prompts of a group's attempts and the system prompt of every call, with
//! their tokens, so that each is encoded once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the shortest text that is kept: a shorter one takes no longer to encode than to find.
const SHORTEST: usize = 32;

/// A cache of encoded texts. What was not looked up while half of its capacity was filled anew is evicted.
pub(crate) struct EncodedTexts {
    state: Mutex<EncodedTextsState>,
    /// Bytes that texts and tokens may take together, about.
    limit: usize,
}

#[derive(Default)]
struct EncodedTextsState {
    young: HashMap<String, Arc<[u32]>>,
    /// Bytes of what is young.
    size: usize,
    old: HashMap<String, Arc<[u32]>>,
}

impl EncodedTexts {
    /// None yet.
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), limit }
    }

    fn state(&self) -> MutexGuard<'_, EncodedTextsState> {
        // Whatever is in it is true.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tokens of a text; `encode` computes them where they are not cached.
    pub(crate) fn tokens<E>(&self, text: &str, encode: impl FnOnce() -> Result<Vec<u32>, E>) -> Result<Arc<[u32]>, E> {
        if text.len() < SHORTEST {
            return encode().map(Arc::from);
        }
        if let Some(known) = self.state().find(text, self.limit) {
            return Ok(known);
        }
        let tokens: Arc<[u32]> = encode()?.into();
        self.state().keep(text.to_owned(), Arc::clone(&tokens), self.limit);
        Ok(tokens)
    }
}

impl EncodedTextsState {
    fn find(&mut self, text: &str, limit: usize) -> Option<Arc<[u32]>> {
        if let Some(known) = self.young.get(text) {
            return Some(Arc::clone(known));
        }
        let (text, known) = self.old.remove_entry(text)?;
        self.keep(text, Arc::clone(&known), limit);
        Some(known)
    }

    fn keep(&mut self, text: String, tokens: Arc<[u32]>, limit: usize) {
        let size = text.len() + size_of_val(&*tokens);
        if size > limit / 2 {
            return;
        }
        if self.size + size > limit / 2 {
            self.old = std::mem::take(&mut self.young);
            self.size = 0;
        }
        if self.young.insert(text, tokens).is_none() {
            self.size += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize) -> String {
        format!("{number:0SHORTEST$}")
    }

    /// Whether a text has to be encoded.
    fn is_encoded(texts: &EncodedTexts, text: &str) -> bool {
        let mut is_encoded = false;
        let tokens = texts.tokens(text, || {
            is_encoded = true;
            Ok::<_, ()>(vec![text.len() as u32])
        });
        assert_eq!(tokens.as_deref(), Ok(&[text.len() as u32][..]));
        is_encoded
    }

    #[test]
    fn a_text_is_encoded_once_while_it_is_in_use_and_others_give_way() {
        // Room for eight, four of them young.
        let texts = EncodedTexts::new(8 * (SHORTEST + 4));
        assert!((0..4).all(|number| is_encoded(&texts, &text(number))));
        assert!((0..4).all(|number| !is_encoded(&texts, &text(number))));
        assert!((4..8).all(|number| is_encoded(&texts, &text(number)) && !is_encoded(&texts, &text(0))));
        assert!(is_encoded(&texts, &text(1)), "nobody asked for it while four others came");
        let state = texts.state();
        assert!(state.young.len() + state.old.len() <= 8);
    }

    #[test]
    fn what_is_short_or_as_long_as_half_of_the_room_is_not_kept() {
        let texts = EncodedTexts::new(100);
        for text in ["short", &"long".repeat(20)] {
            assert!(is_encoded(&texts, text) && is_encoded(&texts, text));
        }
    }

    #[test]
    fn an_error_is_handed_on_and_not_kept() {
        let texts = EncodedTexts::new(1000);
        assert_eq!(texts.tokens(&text(1), || Err("no")), Err("no"));
        assert!(is_encoded(&texts, &text(1)));
    }
}
