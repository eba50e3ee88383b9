//! Ids of tool calls that say a call's place in its conversation and nothing else: a client that sends calls back without
//! ids, or results by their function's name alone, still means the same calls.

use fulgurite_types::Message;

/// Digits of a number that is read; a client's own longer one is no number of ours.
const MOST_DIGITS: usize = 9;

/// Counts the calls of a conversation.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers {
    next: usize,
}

impl CallNumbers {
    /// Counts the calls of those messages.
    pub(crate) fn of(messages: &[Message]) -> Self {
        let mut numbers = Self::default();
        for call in messages.iter().flat_map(|message| &message.tool_calls) {
            numbers.id_of(call.id.clone());
        }
        numbers
    }

    /// The id of the next call in the conversation: the given one, or else its number.
    pub(crate) fn id_of(&mut self, given: Option<String>) -> String {
        let id = given.unwrap_or_else(|| self.id_after(0));
        // Where a client cut the conversation short, the numbers that are left still count.
        self.next = number_of(&id).map_or(0, |number| number + 1).max(self.next + 1);
        id
    }

    /// The id of a call, of which that many are before it in the conversation's next answer.
    pub(crate) fn id_after(&self, calls: usize) -> String {
        format!("call_{}", self.next + calls)
    }
}

fn number_of(id: &str) -> Option<usize> {
    let digits = id.strip_prefix("call_").filter(|digits| digits.len() <= MOST_DIGITS)?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_alike_with_their_ids_and_without() {
        let ids = |given: &[Option<&str>]| {
            let mut numbers = CallNumbers::default();
            let ids: Vec<String> = given.iter().map(|given| numbers.id_of(given.map(str::to_owned))).collect();
            (ids.join(" "), numbers.id_after(1))
        };
        let of = |ids: &str, next: &str| (ids.to_owned(), next.to_owned());
        assert_eq!(ids(&[]), of("", "call_1"));
        assert_eq!(ids(&[None, None]), of("call_0 call_1", "call_3"));
        assert_eq!(ids(&[Some("call_0"), Some("call_1")]), of("call_0 call_1", "call_3"));
        assert_eq!(ids(&[Some("call_7"), None]), of("call_7 call_8", "call_10"));
        assert_eq!(ids(&[Some("own"), None, Some("call_00000000000000000000")]).1, "call_4");
    }
}
