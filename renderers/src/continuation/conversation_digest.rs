use fulgurite_types::Message;
use sha2::{Digest as _, Sha256};

use crate::continuation::VolatileRules;
use crate::continuation::meaning::Meaning;

/// Digest of the messages that a conversation begins with. It is the same however a client spells them, with reasoning
/// or without, and with the text beside an assistant's calls or without.
#[derive(Clone, Debug)]
pub struct ConversationDigest {
    hasher: Sha256,
    rules: VolatileRules,
}

impl ConversationDigest {
    /// The digest of no messages. Conversations are the same within the same scope only, a list of texts.
    pub fn new(scope: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for text in scope {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        Self { hasher, rules: VolatileRules::built_in() }
    }

    /// Adds the next message.
    pub fn push(&mut self, message: &Message) {
        let calls_alone = Meaning::of_calls_alone(message, &self.rules);
        self.hasher.update(calls_alone.unwrap_or_else(|| Meaning::of(message, &self.rules).digest));
    }

    /// SHA-256 of the messages so far.
    pub fn value(&self) -> [u8; 32] {
        self.hasher.clone().finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn digest(scope: &[&str], messages: &[Value]) -> [u8; 32] {
        let mut digest = ConversationDigest::new(scope);
        messages.iter().for_each(|message| digest.push(&serde_json::from_value(message.clone()).unwrap()));
        digest.value()
    }

    #[test]
    fn an_answer_that_a_client_echoes_in_its_own_spelling_ends_the_same_conversation() {
        let calling = |content: Value, arguments: &str| {
            json!({"role": "assistant", "content": content, "tool_calls":
                [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}]})
        };
        let user = json!({"role": "user", "content": "go"});
        let mut sent = calling(json!("Looking."), "{\"a\": 1, \"b\": 2}");
        sent["reasoning_content"] = json!("hm");
        let expected = digest(&["m"], &[user.clone(), sent]);
        for echoed in [json!("Looking."), json!(null), json!("")] {
            assert_eq!(digest(&["m"], &[user.clone(), calling(echoed, "{\"b\":2,\"a\":1}")]), expected);
        }
        assert_ne!(digest(&["m"], &[user.clone(), calling(json!(null), "{\"b\":2,\"a\":3}")]), expected);
        assert_ne!(digest(&["m"], &[calling(json!(null), "{\"b\":2,\"a\":1}"), user]), expected);
    }

    #[test]
    fn conversations_of_different_scopes_differ() {
        let messages = [json!({"role": "user", "content": "go"})];
        assert_ne!(digest(&["ab", "c"], &messages), digest(&["a", "bc"], &messages));
        assert_eq!(digest(&["a", "bc"], &messages), digest(&["a", "bc"], &messages));
    }
}
