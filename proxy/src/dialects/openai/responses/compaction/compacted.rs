use fulgurite_types::{Content, Message};
use serde_json::{Value, json};

use crate::dialects::openai::responses::item_id::{ItemId, ItemKind};
use crate::dialects::openai::responses::record_marks;
use crate::record::recorded_call::RecordedCall;

/// What the model is asked for behind the conversation. The built-in rule `responses_compaction` for calls beside the task
/// knows it by its beginning.
pub(super) const SUMMARY_REQUEST: &str = "Summarize this conversation for another assistant, who will go on with it and \
    sees nothing but your summary and what the user said. State what is to be done, with every requirement that still \
    holds; what has been done and what was found, with the names, paths, commands, values and errors that matter; what \
    was decided, and why; and what comes next. Write nothing but the summary.";

/// What stands before a summary in a prompt.
const SUMMARY_OPENING: &str = "Summary of the conversation before this point, by the assistant who had it:\n\n";

/// Prefix of the summary in an item's `encrypted_content`, which clients send back unchanged. It is no secret from who had
/// the conversation.
const ENCRYPTED_PREFIX: &str = "fulgurite-compaction:";

/// The summary in an item's `encrypted_content`; `None` of what another server encrypted.
pub(crate) fn summary_in(encrypted: &str) -> Option<&str> {
    encrypted.strip_prefix(ENCRYPTED_PREFIX)
}

/// A summary as the model reads it, where the conversation was.
pub(crate) fn summary_message(summary: &str) -> Message {
    Message::text("user", format!("{SUMMARY_OPENING}{summary}"))
}

/// Of a conversation, what a compaction keeps as it is: what was said to the assistant, but for earlier summaries, which the
/// new one is made of, too.
pub(super) fn kept<'m>(conversation: impl Iterator<Item = &'m Message>) -> Vec<Message> {
    let is_kept = |message: &&Message| match message.role.as_str() {
        "system" | "developer" => true,
        "user" => !message.plain_text(0).is_ok_and(|text| text.starts_with(SUMMARY_OPENING)),
        _ => false,
    };
    conversation.filter(is_kept).cloned().collect()
}

/// What a recorded compaction keeps.
fn kept_by(call: &RecordedCall) -> Vec<Message> {
    kept(record_marks::conversation(call).map(|(_, message)| message))
}

/// The conversation that goes on from a recorded compaction.
pub(crate) fn compacted_conversation(call: &RecordedCall) -> Vec<Message> {
    let mut conversation = kept_by(call);
    conversation.push(summary_message(&summary_of(call)));
    conversation
}

/// A compaction as OpenAI writes it. `created` is in seconds since the epoch.
pub(super) fn compacted_response(
    response_id: &str,
    created: u64,
    kept: &[Message],
    summary: &str,
    usage: &Value,
) -> Value {
    let own = response_id.trim_start_matches("resp_");
    let mut output: Vec<Value> =
        kept.iter().enumerate().map(|(place, message)| input_item(&format!("msg_{own}-{place}"), message)).collect();
    let id = ItemId { response_id: response_id.to_owned(), kind: ItemKind::Compaction, key: "0".to_owned() };
    let encrypted = format!("{ENCRYPTED_PREFIX}{summary}");
    output.push(json!({ "id": id.text(), "type": "compaction", "encrypted_content": encrypted }));
    json!({ "id": response_id, "object": "response.compaction", "created_at": created, "output": output, "usage": usage })
}

/// A recorded compaction; the number of reasoning tokens is not known any more.
pub(crate) fn recorded_compaction(call: &RecordedCall) -> Value {
    let generation = &call.generation;
    let (input, output) = (generation.prompt_tokens.len(), generation.sampled_tokens.len());
    let usage = json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": call.cached_tokens },
        "output_tokens": output,
        "total_tokens": input + output,
    });
    let created = generation.start_time as u64;
    compacted_response(&generation.generation_id, created, &kept_by(call), &summary_of(call), &usage)
}

fn summary_of(call: &RecordedCall) -> String {
    call.reply.as_ref().and_then(|reply| reply.plain_text(0).ok()).unwrap_or_default()
}

/// The item of what was said to the assistant, with its parts as they were given.
fn input_item(id: &str, message: &Message) -> Value {
    let parts: Vec<&str> = match &message.content {
        None => Vec::new(),
        Some(Content::Text(text)) => vec![text],
        Some(Content::Parts(parts)) => parts.iter().filter_map(|part| part.text()).collect(),
    };
    let content: Vec<Value> = parts.into_iter().map(|text| json!({ "type": "input_text", "text": text })).collect();
    json!({ "id": id, "type": "message", "status": "completed", "role": message.role, "content": content })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::ContentPart;

    use super::*;
    use crate::state::auxiliary_rules::{AuxiliaryRule, AuxiliaryRules};

    #[test]
    fn what_was_said_to_the_assistant_is_kept_but_for_earlier_summaries() {
        let parts = Message {
            content: Some(Content::Parts(["a", "b"].map(ContentPart::from_text).to_vec())),
            ..Message::text("user", "")
        };
        let conversation = [
            Message::text("developer", "Be brief."),
            summary_message("It rained."),
            parts.clone(),
            Message::text("assistant", "Hm."),
            Message::text("tool", "7"),
            Message::text("user", "And?"),
        ];
        let kept = kept(conversation.iter());
        assert_eq!(kept, [conversation[0].clone(), parts, conversation[5].clone()]);
        let response = compacted_response("resp_0a", 17, &kept, "It rains.", &json!({}));
        let text = |text: &str| json!({ "type": "input_text", "text": text });
        assert_eq!(response["output"][1]["content"], json!([text("a"), text("b")]));
        assert_eq!(response["output"][1]["id"], "msg_0a-1");
        let item = &response["output"][3];
        assert_eq!((&item["id"], &item["type"]), (&json!("cmp_0a_0"), &json!("compaction")));
        assert_eq!(summary_in(item["encrypted_content"].as_str().unwrap()), Some("It rains."));
        assert_eq!(summary_in("gAAAAAB"), None);
    }

    #[test]
    fn the_request_for_a_summary_is_known_as_made_beside_the_task() {
        let rules = AuxiliaryRules::new(&AuxiliaryRule::built_in()).unwrap();
        let summary_request = [Message::text("user", "Go."), Message::text("user", SUMMARY_REQUEST)];
        assert_eq!(rules.recognise(&summary_request, &[]), Some("responses_compaction"));
        assert_eq!(rules.recognise(&summary_request[..1], &[]), None);
    }
}
