//! One rollout as people read it: what was asked, what was answered, what it earned.

use std::collections::HashMap;

use fulgurite_lab::queries::event::{CallOrigin, EarlierCalls, RecordedCall, RolloutEvent};
use fulgurite_lab::time;
use fulgurite_renderers::Tokenizer;
use fulgurite_store::SpanMessage;
use fulgurite_types::{Attempt, FoundReward, Generation, RecordedTeacherLogprobs, Rollout, Span};
use serde_json::{Value, json};

use crate::paint::Paint;
use crate::records::{components, logprob, weights};
use crate::table::cell;

/// An attempt as far as it has been read: only what later lines refer to is kept of it.
pub struct AttemptTranscript {
    attempt: Attempt,
    calls: EarlierCalls,
}

/// How a transcript is written.
pub struct Style<'t> {
    /// Colours.
    pub paint: Paint,
    /// Whether each sampled token gets a line.
    pub tokens: bool,
    /// Tokenizers by their fingerprints.
    pub tokenizers: &'t HashMap<String, Tokenizer>,
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// What is said of a rollout before its attempts, line by line.
pub fn header(rollout: &Rollout, style: &Style) -> Vec<String> {
    let Rollout { rollout_id, input, start_time, end_time, mode, resources_id, status, metadata, .. } = rollout;
    let mut lines = vec![style.paint.bold(&format!("rollout {rollout_id}: {status}"))];
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<10} {value}"));
        }
    };
    field("mode", mode.map_or(String::new(), |mode| mode.to_string()));
    let metadata_text = |key: &str| cell(metadata.as_ref().and_then(|metadata| metadata.get(key)));
    field("run", metadata_text("run_id"));
    field("step", metadata_text("step"));
    field("started", duration(*start_time, *end_time));
    field("resources", resources_id.clone().unwrap_or_default());
    field("input", plain(Some(input)));
    lines
}

/// When something began, and how long it took if it is over.
fn duration(start: f64, end: Option<f64>) -> String {
    let took = end.map_or(String::new(), |end| format!(", took {:.3} s", end - start));
    format!("{}{took}", time::text(start))
}

impl AttemptTranscript {
    /// Nothing of the attempt has been read yet.
    pub fn new(attempt: Attempt) -> Self {
        Self { attempt, calls: EarlierCalls::default() }
    }

    /// What is said of it before its events.
    pub fn title(&self, style: &Style) -> Vec<String> {
        let attempt = &self.attempt;
        let title = format!("attempt {}, {}: {}", attempt.sequence_id, attempt.attempt_id, attempt.status);
        let mut lines = vec![style.paint.bold(&title)];
        if let Some(worker_id) = &attempt.worker_id {
            lines.push(format!("  {:<10} {worker_id}", "worker"));
        }
        lines.push(format!("  {:<10} {}", "started", duration(attempt.start_time, attempt.end_time)));
        let reason = cell(attempt.metadata.as_ref().and_then(|metadata| metadata.get("reason")));
        if !reason.is_empty() {
            lines.push(format!("  {:<10} {}", "reason", style.paint.red(&reason)));
        }
        if let Some(changes) = attempt.world_changes() {
            let title = if changes.is_empty() { "unchanged" } else { "" };
            lines.push(format!("  {:<10} {title}", "world").trim_end().to_owned());
            lines.extend(changes.to_string().lines().map(|line| format!("    {}", cell(Some(&json!(line))))));
        }
        lines
    }

    /// The next event, line by line.
    pub fn lines(&mut self, event: &RolloutEvent, style: &Style) -> Vec<String> {
        match event {
            RolloutEvent::Call(call) => {
                let lines = call_lines(self, call, style);
                self.calls.push(call);
                lines
            }
            RolloutEvent::Reward(found) => vec![reward_line(self, found, style)],
            RolloutEvent::Span(span) => vec![span_line(span, style)],
        }
    }
}

/// A call that comes next.
fn call_lines(attempt: &AttemptTranscript, call: &RecordedCall, style: &Style) -> Vec<String> {
    let generation = &call.generation;
    let versions = match &generation.weights_versions[..] {
        [] => "unknown".to_owned(),
        versions => weights(versions),
    };
    let title = format!("#{} {}", attempt.calls.count() + 1, generation.generation_id);
    let seconds = generation.end_time - generation.start_time;
    let mut lines = vec![format!(
        "  {} {}",
        style.paint.cyan(&title),
        style.paint.dim(&format!("{}, weights {versions}, {seconds:.3} s", generation.model))
    )];
    let (shown, origin) = origin(attempt, call);
    lines.push(format!("  {}", style.paint.dim(&origin)));
    for message in call.messages.iter().skip(shown) {
        lines.extend(message_lines(message, style));
    }
    lines.extend(message_lines(&call.answer, style));
    lines.push(format!("  {}", style.paint.dim(&numbers(generation))));
    if style.tokens {
        lines.extend(token_lines(call, style));
    }
    lines
}

/// How many of a call's messages need not be shown again, and what it goes on from.
fn origin(attempt: &AttemptTranscript, call: &RecordedCall) -> (usize, String) {
    // That a conversation begins is said by the line itself.
    let reason = call.generation.branch_reason.as_ref().filter(|reason| !reason.begins_conversation());
    let branch = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    match (attempt.calls.origin(call), &call.generation.parent_id) {
        (CallOrigin::Continues { number, shared }, parent_id) => {
            let unknown = || parent_id.clone().unwrap_or_default();
            let name = number.map_or_else(unknown, |number| format!("#{number}"));
            (shared, format!("continues {name}, token by token{branch}"))
        }
        (CallOrigin::BeginsLike { number, shared }, _) => {
            (shared, format!("begins anew{branch}, like #{number} up to message {shared}"))
        }
        (CallOrigin::Begins, _) => (0, format!("begins a conversation{branch}")),
    }
}

fn numbers(generation: &Generation) -> String {
    let mut text = format!(
        "{} prompt tokens, {} sampled, logprob {}, stop: {}",
        generation.prompt_tokens.len(),
        generation.sampled_tokens.len(),
        logprob(generation.logprobs.as_deref()),
        generation.stop_reason
    );
    if generation.client_disconnected {
        text.push_str(", the client hung up");
    }
    if let Some(defect) = &generation.defect {
        text.push_str(&format!(", not to be trained: {defect}"));
    }
    text
}

/// A message; further lines of its content line up with the first.
fn message_lines(message: &SpanMessage, style: &Style) -> Vec<String> {
    let role = format!("{:<10}", message.role);
    let calls = message.calls.iter().map(|(name, arguments)| format!("calls {name} {arguments}"));
    let lines: Vec<String> = message.content.lines().map(str::to_owned).chain(calls).collect();
    let mut lines = lines.iter();
    let first = format!("  {} {}", style.paint.green(&role), lines.next().map_or("", String::as_str));
    let mut out = vec![first];
    out.extend(lines.map(|line| format!("  {:<10} {line}", "")));
    out
}

/// A line for each token: its id, its logprob, those under teachers, its text.
fn token_lines(call: &RecordedCall, style: &Style) -> Vec<String> {
    let RecordedCall { generation, teachers, .. } = call;
    let tokenizer = style.tokenizers.get(&generation.tokenizer);
    let line = |(index, token): (usize, &u32)| {
        let logprob = generation.logprobs.as_ref().and_then(|logprobs| logprobs.get(index));
        let logprob = logprob.map_or("none".to_owned(), |logprob| format!("{logprob:.4}"));
        let text = tokenizer.map_or(String::new(), |tokenizer| format!("  {}", json!(tokenizer.decode(&[*token]))));
        let of_teacher = |teacher: &RecordedTeacherLogprobs| {
            teacher.values.logprobs.get(index).map_or(String::new(), |logprob| format!(" {logprob:>10.4}"))
        };
        let of_teachers: String = teachers.iter().map(of_teacher).collect();
        format!("    {token:>8} {logprob:>10}{of_teachers}{text}")
    };
    let names: String = teachers.iter().map(|teacher| format!(" {:>10}", teacher.values.teacher)).collect();
    let header = (!teachers.is_empty()).then(|| format!("    {:>8} {:>10}{names}", "token", "sampler"));
    header.into_iter().chain(generation.sampled_tokens.iter().enumerate().map(line)).collect()
}

fn reward_line(attempt: &AttemptTranscript, found: &FoundReward, style: &Style) -> String {
    let reward = &found.recorded.reward;
    let value = format!("{:+.3}", reward.value);
    let value = if reward.value < 0.0 { style.paint.red(&value) } else { style.paint.green(&value) };
    let parts = match components(reward) {
        none if none.is_empty() => none,
        parts => format!(" ({parts})"),
    };
    let subject = match &found.recorded.generation_id {
        None => "the attempt".to_owned(),
        Some(id) => attempt.calls.number(id).map_or(id.clone(), |number| format!("#{number}")),
    };
    format!("  reward {value} {}{parts}: for {subject}, from a span {}", reward.name, found.span_name)
}

fn span_line(span: &Span, style: &Style) -> String {
    let took = span.start_time.zip(span.end_time).map(|(start, end)| format!(", {:.3} s", end - start));
    let status = span.status.status_code;
    let why = span.status.description.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
    let text = format!("span {}: {status}{}{why}", span.name, took.unwrap_or_default());
    format!("  {}", style.paint.dim(&text))
}
