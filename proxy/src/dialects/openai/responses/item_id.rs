//! Ids of the items of an answer.

const RESPONSE_PREFIX: &str = "resp_";

/// What kind of item an answer's part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Reasoning,
    Message,
    Call,
    /// Of a compacted conversation, and of no answer.
    Compaction,
}

impl ItemKind {
    fn prefix(self) -> &'static str {
        match self {
            ItemKind::Reasoning => "rs",
            ItemKind::Message => "msg",
            ItemKind::Call => "fc",
            ItemKind::Compaction => "cmp",
        }
    }
}

/// An item's id, which contains the response's id and the item's place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ItemId {
    pub(super) response_id: String,
    pub(super) kind: ItemKind,
    /// A call's own id; of other kinds, the number among those, counted from 0.
    pub(super) key: String,
}

impl ItemId {
    /// Reads what [`ItemId::text`] wrote.
    pub(super) fn read(id: &str) -> Option<Self> {
        let (prefix, rest) = id.split_once('_')?;
        let (response, key) = rest.split_once('_')?;
        let kinds = [ItemKind::Reasoning, ItemKind::Message, ItemKind::Call, ItemKind::Compaction];
        Some(Self {
            response_id: format!("{RESPONSE_PREFIX}{response}"),
            kind: kinds.into_iter().find(|kind| kind.prefix() == prefix)?,
            key: key.to_owned(),
        })
    }

    pub(super) fn text(&self) -> String {
        let response = self.response_id.strip_prefix(RESPONSE_PREFIX).unwrap_or(&self.response_id);
        format!("{}_{response}_{}", self.kind.prefix(), self.key)
    }
}

/// The id of the response that an item is of.
pub(super) fn response_of_item(id: &str) -> Option<String> {
    ItemId::read(id).map(|id| id.response_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for (kind, key, written) in [
            (ItemKind::Reasoning, "3", "rs_0a_3"),
            (ItemKind::Message, "0", "msg_0a_0"),
            (ItemKind::Call, "call_1f", "fc_0a_call_1f"),
            (ItemKind::Compaction, "0", "cmp_0a_0"),
        ] {
            let id = ItemId { response_id: "resp_0a".to_owned(), kind, key: key.to_owned() };
            assert_eq!(id.text(), written);
            assert_eq!(ItemId::read(written), Some(id));
        }
        for other in ["msg_0a", "ws_0a_1", "", "resp_0a"] {
            assert_eq!(ItemId::read(other), None, "{other}");
        }
    }
}
