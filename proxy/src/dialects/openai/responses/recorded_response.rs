use fulgurite_types::{Message, StopReason};
use serde_json::{Map, Value, json};

use super::earlier_responses::INSTRUCTIONS_COME_FIRST;
use super::output_items::{OutputItems, ReasoningForm};
use super::response_object::{ResponseStatus, echo, response};
use super::response_request::{TOOL_FORMS, recorded_forms};
use super::tools::declaration;
use crate::record::recorded_call::RecordedCall;

/// A response from its record. Tools that the model was not shown are not among its tools, and the number of reasoning
/// tokens is not known any more.
pub(super) fn recorded_response(call: &RecordedCall) -> Value {
    let generation = &call.generation;
    let response_status = match generation.stop_reason {
        StopReason::Length => ResponseStatus::Incomplete,
        StopReason::ClientGone => ResponseStatus::Cancelled,
        StopReason::Error => ResponseStatus::Failed("the model's host failed".to_owned()),
        StopReason::Stop | StopReason::Other(_) => ResponseStatus::Completed,
    };
    let is_whole = matches!(response_status, ResponseStatus::Completed);
    let form = ReasoningForm::asked_in(&call.request_extra);
    let no_reply = Message::default();
    let reply = call.reply.as_ref().unwrap_or(&no_reply);
    let output =
        OutputItems::of_message(&generation.generation_id, form, recorded_forms(&call.request_extra), reply, is_whole)
            .values();
    let created = generation.start_time as u64;
    let echo = echo(&request(call));
    let mut response = response(&generation.generation_id, created, &generation.model, &echo, &response_status, output);
    let (input, output) = (generation.prompt_tokens.len(), generation.sampled_tokens.len());
    response["usage"] = json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": call.cached_tokens },
        "output_tokens": output,
        "total_tokens": input + output,
    });
    response
}

/// The request's fields that its response repeats.
fn request(call: &RecordedCall) -> Map<String, Value> {
    let mut request = call.request_extra.clone();
    let forms = recorded_forms(&request);
    request.remove(TOOL_FORMS);
    if request.contains_key(INSTRUCTIONS_COME_FIRST)
        && let Some(instructions) = call.messages.first()
    {
        request.insert("instructions".to_owned(), json!(instructions.content));
    }
    request.insert("tools".to_owned(), call.tools.iter().map(|tool| declaration(tool, &forms)).collect());
    request
}
