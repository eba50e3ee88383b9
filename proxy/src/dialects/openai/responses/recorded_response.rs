use fulgurite_renderers::Renderer;
use fulgurite_types::{Message, StopReason};
use serde_json::{Map, Value, json};

use super::compaction::recorded_compaction;
use super::output_items::{Change, OutputItems, ReasoningForm};
use super::record_marks;
use super::response_object::{ResponseStatus, echo, response, status_event, write_event};
use super::tool_forms::{TOOL_FORMS, recorded_forms};
use super::tools::declaration;
use crate::record::recorded_call::RecordedCall;
use crate::reply::assistant_message::{AssistantMessage, Delta, ToolCallIds};

/// A response from its record. Tools that the model was not shown are not among its tools, and the number of reasoning
/// tokens is not known any more.
pub(crate) fn recorded_response(call: &RecordedCall, renderer: Option<&dyn Renderer>) -> Value {
    if record_marks::is_compaction(call) {
        return recorded_compaction(call);
    }
    let response_status = response_status(call);
    let items = answer_items(call, renderer, &response_status).0;
    recorded(call, &response_status, items.values())
}

/// The same as the events of a stream, from the one after number `after` on. Each text comes in one piece where its tokens
/// cannot be read any more.
pub(crate) fn recorded_stream(call: &RecordedCall, renderer: Option<&dyn Renderer>, after: Option<u64>) -> Vec<u8> {
    let response_status = response_status(call);
    let (items, changes) = answer_items(call, renderer, &response_status);
    let mut started = recorded(call, &ResponseStatus::InProgress, Vec::new());
    started["usage"] = Value::Null;
    let mut events = vec![status_event("created", started.clone()), status_event("in_progress", started)];
    events.extend(changes.iter().flat_map(|change| items.events(change)));
    events.push(status_event(response_status.name(), recorded(call, &response_status, items.values())));
    let mut out = Vec::new();
    let numbered = (0..).zip(events).filter(|(number, _)| after.is_none_or(|after| *number > after));
    numbered.for_each(|(number, event)| write_event(event, number, &mut out));
    out
}

fn response_status(call: &RecordedCall) -> ResponseStatus {
    match call.generation.stop_reason {
        StopReason::Length => ResponseStatus::Incomplete,
        StopReason::ClientDisconnected => ResponseStatus::Cancelled,
        StopReason::Error => ResponseStatus::Failed("the model's host failed".to_owned()),
        StopReason::Stop | StopReason::Other(_) => ResponseStatus::Completed,
    }
}

/// The items of the answer, and how they came about: as its tokens gave them, where they can still be read, so that calls
/// which broke or were cut leave the items that they left in the answer.
fn answer_items(
    call: &RecordedCall,
    renderer: Option<&dyn Renderer>,
    response_status: &ResponseStatus,
) -> (OutputItems, Vec<Change>) {
    let is_whole = matches!(response_status, ResponseStatus::Completed);
    let form = ReasoningForm::requested_in(&call.request_extra);
    let no_reply = Message::default();
    let reply = call.reply.as_ref().unwrap_or(&no_reply);
    let mut items = OutputItems::new(&call.generation.generation_id, form, recorded_forms(&call.request_extra));
    let changes = match renderer.and_then(|renderer| read_again(call, renderer, reply)) {
        Some(deltas) => {
            let changes: Vec<Change> = deltas.iter().flat_map(|delta| items.take(delta, Vec::new())).collect();
            [changes, items.finish(reply, is_whole)].concat()
        }
        None => items.take_message(reply, is_whole),
    };
    (items, changes)
}

/// What the tokens of an answer made certain, one after another; `None` where they do not make up what is recorded of it.
fn read_again(call: &RecordedCall, renderer: &dyn Renderer, reply: &Message) -> Option<Vec<Delta>> {
    let generation = &call.generation;
    if renderer.name() != generation.renderer {
        return None;
    }
    let ids = ToolCallIds {
        seed: generation.seed,
        request_digest: generation.request_digest.clone(),
        format: renderer.response_format(),
        numbers: None,
    };
    let mut message = AssistantMessage::new(Vec::new(), ids);
    let mut parser = renderer.stream_parser(&generation.prompt_tokens, &call.tools);
    let mut deltas = Vec::new();
    for token in &generation.sampled_tokens {
        parser.events_of(&[*token]).for_each(|event| deltas.extend(message.take(event)));
    }
    parser.finish().0.into_iter().for_each(|event| deltas.extend(message.take(event)));
    deltas.extend(message.finish());
    let read = message.into_message();
    let text = |message: &Message| message.plain_text(0).unwrap_or_default();
    (text(&read) == text(reply) && read.tool_calls == reply.tool_calls).then_some(deltas)
}

fn recorded(call: &RecordedCall, response_status: &ResponseStatus, output: Vec<Value>) -> Value {
    let generation = &call.generation;
    let created = generation.start_time as u64;
    let echo = echo(&request(call));
    let mut response = response(&generation.generation_id, created, &generation.model, &echo, response_status, output);
    let (input, output) = (generation.prompt_tokens.len(), generation.sampled_tokens.len());
    response["usage"] = json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": call.cached_tokens },
        "output_tokens": output,
        "total_tokens": input + output,
    });
    response
}

/// The items of a response's input, from its record: all of its conversation but the instructions, the earlier turns
/// of a conversation that goes on from another response among them.
pub(crate) fn recorded_input(call: &RecordedCall) -> Vec<Value> {
    let forms = recorded_forms(&call.request_extra);
    let mut items = Vec::new();
    for (place, message) in record_marks::conversation(call) {
        let own = call.generation.generation_id.trim_start_matches("resp_");
        let text = message.plain_text(place).unwrap_or_default();
        match message.role.as_str() {
            "assistant" => {
                let form = ReasoningForm::default();
                let response_id = format!("resp_{own}-{place}");
                items.extend(OutputItems::of_message(&response_id, form, forms.clone(), message, true).values());
            }
            "tool" => items.push(json!({
                "id": format!("fco_{own}-{place}"), "type": "function_call_output", "status": "completed",
                "call_id": message.tool_call_id, "output": text,
            })),
            role => items.push(json!({
                "id": format!("msg_{own}-{place}"), "type": "message", "status": "completed", "role": role,
                "content": [{ "type": "input_text", "text": text }],
            })),
        }
    }
    items
}

/// The request's fields that its response repeats.
fn request(call: &RecordedCall) -> Map<String, Value> {
    let mut request = call.request_extra.clone();
    let forms = recorded_forms(&request);
    request.remove(TOOL_FORMS);
    if let Some(instructions) = record_marks::instructions(call) {
        request.insert("instructions".to_owned(), json!(instructions.content));
    }
    request.insert("tools".to_owned(), call.tools.iter().map(|tool| declaration(tool, &forms)).collect());
    request
}
