use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::compact_reply::CompactReply;
use super::compacted::{SUMMARY_REQUEST, kept};
use crate::dialects::field_checks::{check_other_hosts_fields, refuse, sampling};
use crate::dialects::field_kinds::left_out;
use crate::dialects::openai::responses::earlier_responses::EarlierResponses;
use crate::dialects::openai::responses::record_marks::mark_compaction;
use crate::dialects::openai::responses::response_request::{RESPONSES, conversation_of, recorded_extra, refuse_stored};
use crate::error::ProxyError;
use crate::requests::model_request::{AnswerOptions, ModelRequest, Prompt};
use crate::requests::request_body::{digest, read_fields};
use crate::requests::structured_output::StructuredOutput;

/// The fields of a request that we act on; all others are in `rest`.
#[derive(Debug, Deserialize)]
struct CompactFields {
    model: String,
    #[serde(default)]
    input: Value,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    stream: Option<bool>,
    #[serde(skip)]
    rest: Map<String, Value>,
}

/// Reads and checks a request to compact a conversation, which may go on from `earlier` responses. The model is shown no
/// tools: what it writes is the summary.
pub(crate) fn read(mut body: Map<String, Value>, earlier: &EarlierResponses) -> Result<ModelRequest, ProxyError> {
    // The same body may be sent for an answer, which is another request.
    let digest = format!("{:x}", Sha256::digest(format!("compaction\n{}", digest(&body))));
    let mut extra = recorded_extra(&body);
    mark_compaction(&mut extra);
    let fields: CompactFields = read_fields(&mut body)?;
    let fields = CompactFields { rest: body, ..fields };
    check_other_hosts_fields(&fields.rest)?;
    refuse_stored(&fields.rest)?;
    if fields.stream == Some(true) {
        refuse("stream", "true is not supported: a compaction comes whole")?;
    }
    let previous = fields.previous_response_id.as_deref();
    let mut messages = conversation_of(fields.instructions.as_deref(), previous, &fields.input, earlier)?;
    let kept = kept(messages.iter().skip(usize::from(fields.instructions.is_some())));
    messages.push(Message::text("user", SUMMARY_REQUEST));
    Ok(ModelRequest {
        endpoint: &RESPONSES,
        options: AnswerOptions {
            sets_temperature: false,
            sampling: sampling(None, None, None)?,
            form: StructuredOutput::default(),
            max_tokens: None,
            stop_strings: Vec::new(),
            logprobs: false,
            top_logprobs: 0,
            choices: 1,
        },
        prompt: Prompt::conversation(messages, Vec::new()),
        stream: false,
        return_token_ids: false,
        seed: None,
        ignored_tools: Vec::new(),
        left_out: left_out(&fields.rest, &[]),
        digest,
        reply: Box::new(CompactReply { kept }),
        extra,
        model: fields.model,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_value(body: Value) -> Result<ModelRequest, Option<String>> {
        read(body.as_object().cloned().unwrap(), &EarlierResponses::default()).map_err(|error| match error {
            ProxyError::InvalidRequest { parameter, .. } => parameter,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_conversation_is_sampled_from_with_the_request_for_a_summary_and_without_tools() {
        let body = json!({
            "model": "m", "instructions": "Be brief.",
            "input": [{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "Hello." }],
            "tools": [{ "type": "function", "name": "f" }], "reasoning": { "effort": "low", "summary": "auto" },
            "prompt_cache_key": "k", "parallel_tool_calls": true,
        });
        let request = read_value(body.clone()).unwrap();
        let Prompt::Messages(conversation) = &request.prompt else { panic!("{:?}", request.prompt) };
        let roles: Vec<&str> = conversation.messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!((roles.as_slice(), conversation.tools.len()), (&["system", "user", "assistant", "user"][..], 0));
        assert_eq!(request.left_out.unknown, ["tools", "reasoning.summary"]);
        assert_ne!(request.digest, digest(body.as_object().unwrap()));
    }

    #[test]
    fn every_fault_names_its_field() {
        for (body, parameter) in [
            (json!({ "input": "hi" }), None),
            (json!({ "model": "m" }), Some("input")),
            (json!({ "model": "m", "input": "hi", "stream": true }), Some("stream")),
            (json!({ "model": "m", "input": "hi", "conversation": "conv_1" }), Some("conversation")),
            (json!({ "model": "m", "input": "hi", "min_p": 0.5 }), Some("min_p")),
            (json!({ "model": "m", "previous_response_id": "resp_1" }), Some("previous_response_id")),
        ] {
            assert_eq!(read_value(body.clone()).unwrap_err().as_deref(), parameter, "{body}");
        }
    }
}
