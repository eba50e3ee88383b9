//! Any tokens, parsed as a model's answer, in every format and however they are cut.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::parsing::{TurnEnds, mark_texts};
use crate::{ParseEvent, ParsedMessage, ParsedPart, PartContent, ResponseFormat, StreamParser, Termination, Tokenizer};

/// What models say, and what they should not.
const SNIPPETS: &[&str] = &[
    "\n",
    "\n\n",
    " ",
    "ok",
    "é🙂",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "{\"name\": \"f\", \"arguments\": {\"x\": [1, \"}\\\"\"]}}",
    "{\"arguments\": {}, \"id\": \"c\", \"name\": \"g\"}",
    "{\"name\": \"f\", \"parameters\": {\"x\": ",
    "{\"name\": \"f\", \"arguments\": \"x\", \"name\": \"f\"}",
    "{\"x\": 1}",
    "\"}}",
    "1}}",
    "<function=f>\n<parameter=x>\n",
    "\n</parameter>\n</function>\n",
    "</parameter>\n<parameter=x>",
    "</parameter>",
    "<parameter=y: [1]",
    "<function=g></function>",
    " name=\"f\">\n",
    " name=\"x\" string=\"true\">",
    " name=\"y\" string=\"false\">[1]",
    " name=\"f\">\n<",
    "<｜DSML｜ calls>",
    "<arg_key>x</arg_key><arg_value>",
    "</arg_value>",
    "; ",
    "[TOOL_CALLS]",
    "[CALL_ID]",
    "[ARGS]",
    "[/THINK]",
    "functools[",
    "<|/tool_call|>",
    " [",
    ", ",
    "]",
    "<start_function_call>",
    "call:f{x:<escape>a}<escape>,y:[1]",
    "}",
    "<end_function_call>",
    "function",
    "f\n```json\n",
    "\n```",
    "f",
    "functions.f:0",
    " to=functions.f",
    "assistant",
    "analysis",
    "final",
    "commentary",
    "\n\nUser:",
];

/// One parameter of `f` is never text.
static TOOLS: LazyLock<[Value; 1]> = LazyLock::new(|| {
    let types = json!(["integer", "object"]);
    [json!({ "name": "f", "parameters": { "properties": { "x": { "type": types } } } })]
});

/// One format with its tokenizer.
struct Setting {
    tokenizer: Arc<Tokenizer>,
    format: ResponseFormat,
    turn_ends: Vec<u32>,
    turn_end_text: Option<&'static str>,
    /// Marks, the ends of turns, and the beginning of one.
    controls: Vec<Vec<u32>>,
    snippets: Vec<Vec<u32>>,
}

static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    vec![
        setting("qwen3", ResponseFormat::Text, &["<|im_end|>"]),
        setting("qwen3", ResponseFormat::RoleColon, &[]),
        setting("qwen3", ResponseFormat::QwenJson, &["<|im_end|>"]),
        setting("qwen3", ResponseFormat::QwenXml, &["<|im_end|>"]),
        setting("deepseek", ResponseFormat::DeepSeek, &["<｜end▁of▁sentence｜>"]),
        setting("kimi", ResponseFormat::Kimi, &["<|im_end|>"]),
        setting("gpt_oss", ResponseFormat::Harmony, &["<|return|>", "<|call|>"]),
        setting("llama3", ResponseFormat::LlamaJson, &["<|eot_id|>"]),
        setting("llama3", ResponseFormat::Mistral, &["<|eot_id|>"]),
        setting("llama3", ResponseFormat::Phi, &["<|eot_id|>"]),
        setting("llama3", ResponseFormat::Gemma, &["<|eot_id|>"]),
        setting("glm", ResponseFormat::Glm, &["<|user|>", "<|observation|>"]),
        setting("deepseek", ResponseFormat::Dsml, &["<｜end▁of▁sentence｜>"]),
        // Tokenizers without tokens for the marks.
        setting("llama3", ResponseFormat::Glm, &["<|eot_id|>"]),
        setting("llama3", ResponseFormat::Dsml, &["<|eot_id|>"]),
        setting("llama3", ResponseFormat::QwenJson, &["<|eot_id|>"]),
        setting("llama3", ResponseFormat::QwenXml, &["<|eot_id|>"]),
        setting("gpt_oss", ResponseFormat::Kimi, &["<|end|>"]),
    ]
});

fn setting(tokenizer: &str, format: ResponseFormat, turn_ends: &[&str]) -> Setting {
    let tokenizer = super::tokenizer(tokenizer);
    let tokens = |texts: &[&str]| texts.iter().filter_map(|text| tokenizer.token_to_id(text)).collect::<Vec<u32>>();
    let marks = mark_texts(format).into_iter().filter(|text| {
        // A mark that holds a token has none of its own.
        text.contains("｜DSML｜") || tokenizer.token_to_id(text).is_some()
    });
    let mut controls: Vec<Vec<u32>> =
        marks.map(|text| tokenizer.encode_with_specials(text).expect("the tokenizer encodes")).collect();
    let others =
        ["<|im_start|>", "<｜Assistant｜>", "<|im_middle|>", "<|start_header_id|>", "<|assistant|>", "｜DSML｜"];
    let others = [tokens(turn_ends), tokens(&others), vec![u32::MAX]].concat();
    controls.extend(others.into_iter().map(|token| vec![token]));
    let ordinary = |text: &&str| tokenizer.encode_ordinary(text).expect("the tokenizer encodes");
    Setting {
        turn_ends: tokens(turn_ends),
        turn_end_text: (format == ResponseFormat::RoleColon).then_some("\n\nUser:"),
        controls,
        snippets: SNIPPETS.iter().map(ordinary).collect(),
        format,
        tokenizer,
    }
}

impl Setting {
    fn parser(&self, prompt: &[u32]) -> StreamParser {
        let ends = TurnEnds { tokens: &self.turn_ends, text: self.turn_end_text };
        StreamParser::new(&self.tokenizer, self.format, ends, prompt, &*TOOLS)
    }

    /// A byte is a control token, a snippet, or a token of the vocabulary.
    fn tokens(&self, byte: u8) -> Vec<u32> {
        let index = usize::from(byte);
        match byte {
            0..80 => self.controls[index % self.controls.len()].clone(),
            80..160 => self.snippets[index % self.snippets.len()].clone(),
            _ => vec![u32::from(byte) * 5 % 560],
        }
    }

    /// Whether text between two parts is nothing but the format's markup and white space beside it.
    fn is_markup(&self, gap: &str, may_be_cut: bool) -> bool {
        let mut rest = gap.trim_start();
        let between_calls: &[&str] = match self.format {
            ResponseFormat::LlamaJson => &[";"],
            ResponseFormat::Mistral | ResponseFormat::Phi => &["[", "]", ","],
            _ => &[],
        };
        let markup = [mark_texts(self.format), between_calls.to_vec()].concat();
        while let Some(mark) = markup.iter().find(|mark| rest.starts_with(**mark)) {
            rest = rest[mark.len()..].trim_start();
        }
        // A header of Harmony's goes up to the body that follows it.
        match rest.split_once("<|message|>") {
            _ if rest.is_empty() => true,
            Some((_, rest)) if self.format == ResponseFormat::Harmony => self.is_markup(rest, may_be_cut),
            _ => may_be_cut && self.format == ResponseFormat::Harmony,
        }
    }
}

/// Reads tokens that bytes name: the first byte is the format, the second how many of the others are the prompt's.
///
/// However the tokens are cut, the events are the same and add up to the message; the message's parts follow each other
/// and leave nothing but markup between them; and what the prompt opened is as open as if it had been sampled.
pub fn fuzz_parse(bytes: &[u8]) {
    let [first, second, bytes @ ..] = bytes else { return };
    let setting = &SETTINGS[usize::from(*first) % SETTINGS.len()];
    let prompt_bytes = usize::from(*second) % (bytes.len() + 1);
    let prompt: Vec<u32> = bytes[..prompt_bytes].iter().flat_map(|byte| setting.tokens(*byte)).collect();
    let sampled: Vec<u32> = bytes[prompt_bytes..].iter().flat_map(|byte| setting.tokens(*byte)).collect();
    let (events, message) = read(setting.parser(&prompt), sampled.chunks(sampled.len().max(1)));
    for length in [1, 2, usize::from(*second) + 1] {
        let cut = read(setting.parser(&prompt), sampled.chunks(length));
        assert_eq!(cut, (events.clone(), message.clone()), "in chunks of {length}");
    }
    check_cover(setting, &message);
    check_events(&events, &message);
    check_prompt(setting, &prompt, &sampled, &message);
}

/// Feeds chunks; the events of all of them, neighbours of a kind as one.
fn read<'t>(mut parser: StreamParser, chunks: impl Iterator<Item = &'t [u32]>) -> (Vec<ParseEvent>, ParsedMessage) {
    let mut events: Vec<ParseEvent> = Vec::new();
    for chunk in chunks {
        events.extend(parser.feed(chunk));
    }
    let (rest, message) = parser.finish();
    events.extend(rest);
    (joined(events), message)
}

fn joined(events: Vec<ParseEvent>) -> Vec<ParseEvent> {
    let mut joined: Vec<ParseEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(ParseEvent::Reasoning(text)), ParseEvent::Reasoning(delta))
            | (Some(ParseEvent::Text(text)), ParseEvent::Text(delta)) => text.push_str(&delta),
            (Some(ParseEvent::Arguments { delta: text, .. }), ParseEvent::Arguments { delta, .. }) => {
                text.push_str(&delta);
            }
            (_, event) => joined.push(event),
        }
    }
    joined
}

/// Parts come one after another and leave nothing but markup.
fn check_cover(setting: &Setting, message: &ParsedMessage) {
    let mut at = 0;
    for part in &message.parts {
        assert!(part.range.start >= at && part.range.end >= part.range.start, "{part:?} of {message:?}");
        let gap = &message.text[at..part.range.start];
        assert!(setting.is_markup(gap, false), "{gap:?} is lost of {message:?}");
        at = part.range.end;
    }
    let gap = &message.text[at..];
    assert!(setting.is_markup(gap, message.termination == Termination::Malformed), "{gap:?} is lost of {message:?}");
}

/// The events give the message's parts, and its content.
fn check_events(events: &[ParseEvent], message: &ParsedMessage) {
    let mut reported = Vec::new();
    let mut content = String::new();
    for event in events {
        match event {
            ParseEvent::Reasoning(text) => tell(&mut reported, "reasoning", text),
            ParseEvent::Text(text) => {
                tell(&mut reported, "text", text);
                content += text;
            }
            // Calls are compared when they end; the events of a broken one are void.
            ParseEvent::ToolCall { .. } | ParseEvent::Arguments { .. } => {}
            ParseEvent::ToolCallEnd { index } => tell(&mut reported, "call", &call_text(events, *index)),
            ParseEvent::BrokenToolCall { text, error, .. } => {
                tell(&mut reported, "broken", &format!("{text:?} {error}"));
                content += text;
            }
        }
    }
    let mut expected = Vec::new();
    for part in &message.parts {
        let (kind, text) = described(part, message);
        tell(&mut expected, kind, &text);
    }
    assert_eq!(reported, expected);
    assert_eq!(message.message().plain_text(0).ok(), Some(content));
}

/// Adds an event; prose goes on where it stopped.
fn tell(pieces: &mut Vec<(&'static str, String)>, kind: &'static str, text: &str) {
    match pieces.last_mut() {
        Some((last, last_text)) if *last == kind && matches!(kind, "reasoning" | "text") => last_text.push_str(text),
        _ => pieces.push((kind, text.to_owned())),
    }
}

fn call_text(events: &[ParseEvent], call: usize) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            ParseEvent::ToolCall { index, id, name } if *index == call => text += &format!("{id:?} {name:?} "),
            ParseEvent::Arguments { index, delta } if *index == call => text += delta,
            _ => {}
        }
    }
    text
}

fn described(part: &ParsedPart, message: &ParsedMessage) -> (&'static str, String) {
    let text = message.text_of(part);
    match &part.content {
        PartContent::Reasoning => ("reasoning", text.to_owned()),
        PartContent::Text => ("text", text.to_owned()),
        PartContent::BrokenToolCall { error } => ("broken", format!("{text:?} {error}")),
        PartContent::ToolCall { id, name, arguments, raw_arguments } => {
            assert_eq!(serde_json::from_str(raw_arguments).ok().as_ref(), Some(arguments));
            ("call", format!("{id:?} {name:?} {raw_arguments}"))
        }
    }
}

/// What the prompt opened is as open as if it had been sampled.
fn check_prompt(setting: &Setting, prompt: &[u32], sampled: &[u32], message: &ParsedMessage) {
    // Only where the prompt is one open turn that begins with a mark, and where no character stands across its end.
    let tokenizer = &setting.tokenizer;
    let marks = mark_texts(setting.format);
    let marks: Vec<u32> = marks.iter().filter_map(|mark| tokenizer.token_to_id(mark)).collect();
    let is_harmony = setting.format == ResponseFormat::Harmony;
    let begins = prompt.first().is_some_and(|token| match is_harmony {
        true => Some(*token) == tokenizer.token_to_id("<|start|>"),
        false => marks.contains(token),
    });
    let is_turn = prompt
        .iter()
        .all(|token| (marks.contains(token) || !tokenizer.is_control(*token)) && !setting.turn_ends.contains(token));
    let all = [prompt, sampled].concat();
    let prompt_text = tokenizer.decode(prompt);
    if !begins || !is_turn || tokenizer.decode(&all) != prompt_text.clone() + &tokenizer.decode(sampled) {
        return;
    }
    let (_, mut whole) = read(setting.parser(&[]), all.chunks(1));
    for part in &mut whole.parts {
        part.range.start = part.range.start.max(prompt_text.len()) - prompt_text.len();
        part.range.end = part.range.end.max(prompt_text.len()) - prompt_text.len();
    }
    // What is blank behind the prompt's end may be no part.
    let text = tokenizer.decode(sampled);
    let is_not_blank = |part: &&ParsedPart| !text[part.range.clone()].trim().is_empty();
    let expected: Vec<&ParsedPart> = whole.parts.iter().filter(is_not_blank).collect();
    let sampled: Vec<&ParsedPart> = message.parts.iter().filter(is_not_blank).collect();
    assert_eq!(sampled, expected, "after the prompt {prompt_text:?}");
}
