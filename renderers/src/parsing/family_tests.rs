//! What each family's messages are read as, part by part.

mod arguments;
mod dsml;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::parsing::parse_event::ParseEvent;
use crate::parsing::parsed_message::{ParsedMessage, PartContent, Termination};
use crate::parsing::stream_parser::{StreamParser, TurnEnds};
use crate::testing::vector_tokenizer;
use crate::{ResponseFormat, Tokenizer};

/// A family with its tokens and the end of its turns.
#[derive(Clone, Copy, Debug)]
struct Family(ResponseFormat, &'static str, &'static [&'static str]);

const QWEN_JSON: Family = Family(ResponseFormat::QwenJson, "qwen3", &["<|im_end|>"]);
const QWEN_XML: Family = Family(ResponseFormat::QwenXml, "qwen3", &["<|im_end|>"]);
const GLM: Family = Family(ResponseFormat::Glm, "glm", &["<|user|>", "<|observation|>", "<|endoftext|>"]);
const DEEPSEEK: Family = Family(ResponseFormat::DeepSeek, "deepseek", &["<｜end▁of▁sentence｜>"]);
const KIMI: Family = Family(ResponseFormat::Kimi, "kimi", &["<|im_end|>"]);
const HARMONY: Family = Family(ResponseFormat::Harmony, "gpt_oss", &["<|return|>", "<|call|>"]);
const LLAMA: Family = Family(ResponseFormat::LlamaJson, "llama3", &["<|eot_id|>"]);
const MISTRAL: Family = Family(ResponseFormat::Mistral, "llama3", &["<|eot_id|>"]);
const PHI: Family = Family(ResponseFormat::Phi, "llama3", &["<|eot_id|>"]);
const GEMMA: Family = Family(ResponseFormat::Gemma, "llama3", &["<|eot_id|>"]);
const ROLE_COLON: Family = Family(ResponseFormat::RoleColon, "qwen3", &[]);

impl Family {
    fn tokenizer(&self) -> Arc<Tokenizer> {
        vector_tokenizer(self.1)
    }

    fn parser(&self, prompt: &str, tools: &[Value]) -> StreamParser {
        let tokenizer = self.tokenizer();
        let ends: Vec<u32> = self.2.iter().map(|end| tokenizer.token_to_id(end).unwrap()).collect();
        let text = (self.0 == ResponseFormat::RoleColon).then_some("\n\nUser:");
        let prompt = tokenizer.encode_with_specials(prompt).unwrap();
        StreamParser::new(&tokenizer, self.0, TurnEnds { tokens: &ends, text }, &prompt, tools)
    }

    fn parse(&self, prompt: &str, sampled: &str, tools: &[Value]) -> ParsedMessage {
        let mut parser = self.parser(prompt, tools);
        parser.feed(&self.tokenizer().encode_with_specials(sampled).unwrap());
        parser.finish().1
    }

    /// The parts as text: a letter for the kind, and what it holds.
    fn parts(&self, prompt: &str, sampled: &str) -> Vec<String> {
        described(&self.parse(prompt, sampled, &[]))
    }
}

fn described(parsed: &ParsedMessage) -> Vec<String> {
    let describe = |part: &super::ParsedPart| {
        let text = parsed.text_of(part);
        match &part.content {
            PartContent::Reasoning => format!("R {text}"),
            PartContent::Text => format!("T {text}"),
            PartContent::ToolCall { id, name, raw_arguments, .. } => {
                format!("C {}{name} {raw_arguments}", id.as_ref().map(|id| format!("{id} ")).unwrap_or_default())
            }
            PartContent::BrokenToolCall { error } => format!("B {text} ({error})"),
        }
    };
    parsed.parts.iter().map(describe).collect()
}

/// The events that each token of `sampled` makes.
fn events(family: Family, prompt: &str, sampled: &str) -> Vec<ParseEvent> {
    let mut parser = family.parser(prompt, &[]);
    let tokens = family.tokenizer().encode_with_specials(sampled).unwrap();
    let mut events: Vec<ParseEvent> = tokens.iter().flat_map(|token| parser.feed(&[*token])).collect();
    events.extend(parser.finish().0);
    events
}

#[test]
fn qwen_with_json() {
    let parts = |sampled| QWEN_JSON.parts("<|im_start|>assistant\n", sampled);
    assert_eq!(parts("<think>\na\n\nb\n</think>\n\nc \n<|im_end|>"), ["R a\n\nb", "T c \n"]);
    assert_eq!(parts("<think>\n\n</think>\n\nc"), ["T c"]);
    assert_eq!(
        parts(
            "ok.\n\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\":[1,  \"}\"]}}\n</tool_call>\n<tool_call>\n\
             {\"id\": \"i\", \"arguments\": {}, \"name\": \"b\"}</tool_call>\n\nDone. <|im_end|>"
        ),
        ["T ok.\n", "C a {\"x\":[1,  \"}\"]}", "C i b {}", "T Done. "]
    );
    assert_eq!(parts("<think>never closed\n<|im_end|>"), ["R never closed"]);
    assert_eq!(parts("a</think>b"), ["T a</think>b"]);
}

#[test]
fn a_call_in_reasoning_counts_if_the_reasoning_does_not_end() {
    let call = "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>";
    let parts = |sampled: &str| QWEN_XML.parts("<|im_start|>assistant\n<think>\n", sampled);
    assert_eq!(parts(&format!("I write\n{call}")), ["R I write", "C a {}"]);
    assert_eq!(
        parts(&format!("I write\n{call}\nor not.\n</think>\n\nok")),
        [format!("R I write\n{call}\nor not."), "T ok".into()]
    );
    assert_eq!(
        DEEPSEEK.parts(
            "<｜Assistant｜><think>",
            "a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>b</think>c"
        ),
        ["R a", "C f {}", "R b", "T c"]
    );
}

#[test]
fn broken_calls_say_what_is_wrong_and_stay_in_the_content() {
    for (body, error) in [
        ("{\"name\": \"a\", bad}", "the call is not JSON: key must be a string at line 1 column 15"),
        ("{\"name\": \"a\", \"arguments\": {\"x\": ba}}", "the call is not JSON: expected value at line 1 column 34"),
        ("{\"name\": \"a\", \"arguments\": \"{}\"}", "the call's `arguments` is not an object"),
        ("{\"name\": 1, \"arguments\": {}}", "the call's `name` is not a string"),
        ("{\"arguments\": {}}", "the call has no `name`"),
        ("{\"name\": \"a\"}", "the call has no `arguments`"),
        ("[1]", "the call is not a JSON object"),
        ("{\"name\": \"a\", \"name\": \"b\", \"arguments\": {}}", "a key of the call stands there twice"),
        (" \n", "the call is empty"),
        ("{\"name\": \"a\", \"arguments\": {}} {}", "the call is not JSON: trailing characters at line 1 column 32"),
    ] {
        let call = format!("<tool_call>{body}</tool_call>");
        let parsed = QWEN_JSON.parse("", &format!("ok\n{call}<|im_end|>"), &[]);
        assert_eq!(described(&parsed), ["T ok".to_owned(), format!("B \n{call} ({error})")]);
        assert_eq!(parsed.message().plain_text(0).unwrap(), format!("ok\n{call}"));
    }
    let cut = QWEN_JSON.parse("", "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}", &[]);
    assert_eq!(cut.termination, Termination::Malformed);
    assert_eq!(described(&cut), ["B <tool_call>\n{\"name\": \"a\", \"arguments\": {}} (nothing ends the call)"]);
}

#[test]
fn qwen_with_xml() {
    let parts = |sampled: &str| QWEN_XML.parts("<|im_start|>assistant\n<think>\n", sampled);
    assert_eq!(
        parts(
            " r \n</think>\n\nok\n\n<tool_call>\n<function=f>\n<parameter=code>\n  if x:\n    y\n\n</parameter>\n\
             <parameter=n>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call><function=g></function></tool_call>"
        ),
        ["R r", "T ok", "C f {\"code\": \"  if x:\\n    y\\n\", \"n\": 2}", "C g {}"]
    );
    assert_eq!(parts("</think><tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call><|im_end|>"), ["C a {}"]);
    for (body, error) in [
        ("<function=f>\njunk<parameter=x>\n1\n</parameter>\n</function>", "text stands beside the parameters"),
        ("<function=f>\n<parameter=x>\n1\n</function>", "no `</function>` ends the call"),
        ("<function=f>\n</function> junk", "text follows the function"),
        ("<function>\n", "no `<function=` begins the call"),
        ("<function= >", "a name is missing"),
        ("<function=f", "nothing is called"),
    ] {
        let call = format!("<tool_call>{body}</tool_call>");
        assert_eq!(parts(&format!("</think>{call}")), [format!("B {call} ({error})")]);
    }
}

#[test]
fn the_tools_tell_the_types_of_parameters() {
    let parameters = json!({"type": "object", "properties": {"zip": {"type": "string"}, "days": {"type": "integer"}}});
    let tools = [json!({"type": "function", "function": {"name": "f", "parameters": parameters}})];
    let sampled = "<tool_call>\n<function=f>\n<parameter=zip>\n08001\n</parameter>\n<parameter=days>\n2\n</parameter>\n\
                   </function>\n</tool_call><|im_end|>";
    assert_eq!(described(&QWEN_XML.parse("", sampled, &tools)), ["C f {\"zip\": \"08001\", \"days\": 2}"]);
    let sampled = sampled.replace("08001", "8001");
    assert_eq!(described(&QWEN_XML.parse("", &sampled, &tools)), ["C f {\"zip\": \"8001\", \"days\": 2}"]);
    assert_eq!(described(&QWEN_XML.parse("", &sampled, &[])), ["C f {\"zip\": 8001, \"days\": 2}"]);
}

#[test]
fn deepseek() {
    let call = |head: &str, arguments: &str| {
        format!("<｜tool▁call▁begin｜>{head}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>")
    };
    let section = |calls: &str| format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>");
    let parts = |sampled: &str| DEEPSEEK.parts("<｜Assistant｜></think>", sampled);
    assert_eq!(
        parts(&("ok \n".to_owned() + &section(&(call("get-weather", " {\"x\":1}\n") + &call("b", "{}"))))),
        ["T ok", "C get-weather {\"x\":1}", "C b {}"]
    );
    for (broken, error) in [
        (call("f", "{bad"), "the arguments are not JSON: key must be a string at line 1 column 2"),
        (call("f", "[]"), "the arguments are not an object"),
        (call(" ", "{}"), "the call has no name"),
        (call("f", " "), "the call has no arguments"),
        ("<｜tool▁call▁begin｜>f<｜tool▁call▁end｜>".to_owned(), "the call has no arguments"),
        ("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}".to_owned(), "nothing ends the call"),
    ] {
        assert_eq!(parts(&section(&broken)), [format!("B {broken} ({error})")]);
    }
    assert_eq!(DEEPSEEK.parts("<｜Assistant｜><think>", "r\n</think>\n\na"), ["R r\n", "T \n\na"]);
}

#[test]
fn kimi() {
    let call = |id: &str| format!("<|tool_call_begin|>{id}<|tool_call_argument_begin|>{{}}<|tool_call_end|>");
    let parts = |sampled: &str| KIMI.parts("<|im_assistant|>assistant<|im_middle|><think>", sampled);
    assert_eq!(
        parts(&format!(
            "r</think>ok<|tool_calls_section_begin|>{}{}<|tool_calls_section_end|><|im_end|>",
            call("functions.a.b:0"),
            call("c:12")
        )),
        ["R r", "T ok", "C functions.a.b:0 a.b {}", "C c:12 c {}"]
    );
    let other = format!("</think><|tool_call_section_begin|>{}<|tool_call_section_end|>", call("functions.a:0"));
    assert_eq!(parts(&other), ["C functions.a:0 a {}"]);
    for id in ["badid", "functions.:0", ":0", "f:", "f:x"] {
        let broken = call(id);
        assert_eq!(
            parts(&format!("</think>{broken}")),
            [format!("B {broken} (the call's id `{id}` is not `functions.NAME:NUMBER`)")]
        );
    }
}

#[test]
fn harmony() {
    let parts = |sampled: &str| HARMONY.parts("<|start|>assistant", sampled);
    assert_eq!(
        parts(
            "<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>commentary<|message|>I call.<|end|>\
             <|start|>assistant<|channel|>commentary to=functions.a <|constrain|>json<|message|>{\"x\":1}<|call|>"
        ),
        ["R r", "T I call.", "C a {\"x\":1}"]
    );
    assert_eq!(parts(" to=functions.a<|channel|>commentary json<|message|>{}\n<|call|>"), ["C a {}"]);
    assert_eq!(parts("<|channel|>final<|message|>cut of"), ["T cut of"]);
    assert_eq!(parts("<|channel|>final<|message|><|return|>"), [""; 0]);
    assert_eq!(parts("<|channel|>analysis<|message|>r<|end|><|start|>assist"), ["R r"]);
    assert_eq!(parts("no channel<|return|>"), ["T no channel"]);
    assert_eq!(
        parts(" to=functions.a<|channel|>commentary<|return|>"),
        ["B  to=functions.a<|channel|>commentary (the call has no arguments)"]
    );
    assert_eq!(
        parts(" to=functions.a<|message|>{bad<|call|>"),
        ["B  to=functions.a<|message|>{bad (the arguments are not JSON: key must be a string at line 1 column 2)"]
    );
    assert_eq!(HARMONY.parts("<|start|>assistant<|channel|>final<|message|>So, ", "yes.<|return|>"), ["T yes."]);
}

#[test]
fn llama() {
    let parts = |sampled: &str| LLAMA.parts("<|start_header_id|>assistant<|end_header_id|>\n\n", sampled);
    assert_eq!(parts("Hello {<|eot_id|>"), ["T Hello {"]);
    assert_eq!(parts("{\"name\": \"f\", \"parameters\": {\"x\": 1}}<|eot_id|>"), ["C f {\"x\": 1}"]);
    assert_eq!(parts("<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}"), ["C f {}"]);
    assert_eq!(parts("{\"answer\": 4} is it"), ["T {\"answer\": 4} is it"]);
    assert_eq!(parts(" {\"name\": \"f\"}"), ["T {\"name\": \"f\"}"]);
    assert_eq!(
        parts("<|python_tag|>f.call()"),
        ["B <|python_tag|>f.call() (the call is not JSON: expected ident at line 1 column 2)"]
    );
    assert_eq!(
        parts("{\"name\": \"f\", \"parameters\": {"),
        [
            "B {\"name\": \"f\", \"parameters\": { (the call is not JSON: EOF while parsing an object at line 1 column 29)"
        ]
    );
}

#[test]
fn llama_with_several_calls() {
    let parts = |sampled: &str| LLAMA.parts("<|start_header_id|>assistant<|end_header_id|>\n\n", sampled);
    let (f, g) = ("{\"name\": \"f\", \"parameters\": {\"x\": 1}}", "{\"name\": \"g\", \"parameters\": {}}");
    let both = ["C f {\"x\": 1}", "C g {}"];
    assert_eq!(parts(&format!("{f}; {g}<|eot_id|>")), both);
    assert_eq!(parts(&format!("{f}\n{g}")), both);
    assert_eq!(parts(&format!("<|python_tag|>{f};<|python_tag|>{g}<|eot_id|>")), both);
    assert_eq!(parts(&format!("{f}; {g}; {f}")), ["C f {\"x\": 1}", "C g {}", "C f {\"x\": 1}"]);
    // What is no call is text, with what stands before it.
    for behind in ["; and more", "; {\"answer\": 4}", "; {\"name\": \"g\"", ";"] {
        assert_eq!(parts(&format!("{f}{behind}<|eot_id|>")), [both[0].to_owned(), format!("T {behind}")]);
    }
    let cut = "{\"name\": \"g\", \"parameters\": {";
    let error = "the call is not JSON: EOF while parsing an object at line 1 column 29";
    assert_eq!(parts(&format!("{f}; {cut}")), [both[0].to_owned(), format!("B {cut} ({error})")]);
}

#[test]
fn deepseek_before_3_1() {
    let call = |name: &str, body: &str| {
        format!("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{body}\n```<｜tool▁call▁end｜>")
    };
    let parts = |calls: &str| {
        let sampled = format!("ok\n<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>");
        DEEPSEEK.parts("<｜Assistant｜></think>", &sampled).split_off(1)
    };
    assert_eq!(
        parts(&(call("get-weather", "{\"x\": \"\\n```\"}") + "\n" + &call("b", "{}"))),
        ["C get-weather {\"x\": \"\\n```\"}", "C b {}"]
    );
    // A tool that is called as the type is.
    assert_eq!(
        parts("<｜tool▁call▁begin｜>function<｜tool▁sep｜> {\"x\":1}<｜tool▁call▁end｜>"),
        ["C function {\"x\":1}"]
    );
    for (broken, error) in [
        (call("f", "{bad"), "the arguments are not JSON: key must be a string at line 1 column 2"),
        (call("f", "[]"), "the arguments are not an object"),
        (call("f", "```"), "the call has no arguments"),
        ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>f<｜tool▁call▁end｜>".to_owned(), "the call has no arguments"),
        (
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\nplain\n{}<｜tool▁call▁end｜>".to_owned(),
            "no fence stands around the arguments",
        ),
        ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```".to_owned(), "nothing ends the call"),
    ] {
        assert_eq!(parts(&broken), [format!("B {broken} ({error})")]);
    }
    let parsed = events(
        DEEPSEEK,
        "<｜Assistant｜></think>",
        &format!("<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>", call("f", "{\"x\": [1, 2]}")),
    );
    assert_eq!(parsed[0], ParseEvent::ToolCall { index: 0, id: None, name: "f".to_owned() });
    assert_eq!(arguments_of(&parsed), "{\"x\": [1, 2]}");
    assert_eq!(parsed.last(), Some(&ParseEvent::ToolCallEnd { index: 0 }));
}

/// The text of the arguments that leaves in pieces, of which there must be several.
fn arguments_of(parsed: &[ParseEvent]) -> String {
    let pieces = parsed.iter().filter_map(|event| match event {
        ParseEvent::Arguments { delta, .. } => Some(delta.as_str()),
        _ => None,
    });
    assert!(pieces.clone().count() > 1, "{parsed:?}");
    pieces.collect()
}

#[test]
fn mistral() {
    let parts = |sampled: &str| MISTRAL.parts("", sampled);
    let (a, b) =
        ("{\"name\": \"a\", \"arguments\": {\"x\": 1}, \"id\": \"abcdefghi\"}", "{\"name\": \"b\", \"arguments\": {}}");
    assert_eq!(parts(&format!(" ok.\n[TOOL_CALLS] [{a}, {b}]<|eot_id|>")), ["T  ok.", "C a {\"x\": 1}", "C b {}"]);
    assert_eq!(parts(&format!("[TOOL_CALLS][{a}] done")), ["C a {\"x\": 1}", "T done"]);
    assert_eq!(parts(&format!("[TOOL_CALLS]{b}")), ["C b {}"]);
    assert_eq!(
        parts("[TOOL_CALLS]get_weather[ARGS]{\"x\": 1}[TOOL_CALLS]b[CALL_ID]abcdefghi[ARGS]{}<|eot_id|>"),
        ["C get_weather {\"x\": 1}", "C abcdefghi b {}"]
    );
    assert_eq!(parts("[THINK]r \n[/THINK]\na"), ["R r", "T a"]);
    assert_eq!(parts("[TOOL_CALLS] []"), [""; 0]);
    // Cut off behind a call, which counts, and within one, which does not.
    assert_eq!(parts(&format!("[TOOL_CALLS] [{a}, ")), ["C a {\"x\": 1}"]);
    for (broken, error) in [
        (
            "[TOOL_CALLS] [{\"name\": \"a\", \"arguments\": {",
            "the call is not JSON: EOF while parsing an object at line 1 column 28",
        ),
        ("[TOOL_CALLS] {bad", "the call is not JSON: key must be a string at line 1 column 2"),
        ("[TOOL_CALLS] [{\"name\": \"a\"}", "the call has no `arguments`"),
        ("[TOOL_CALLS] [1]", "this is no JSON list of calls"),
        ("[TOOL_CALLS] [", "nothing is called"),
        ("[TOOL_CALLS]", "nothing is called"),
        ("[TOOL_CALLS]f", "the call has no arguments"),
        ("[TOOL_CALLS][ARGS]{}", "the call has no name"),
        ("[TOOL_CALLS]f[ARGS]{", "the arguments are not JSON: EOF while parsing an object at line 1 column 1"),
    ] {
        assert_eq!(parts(broken), [format!("B {broken} ({error})")]);
    }
    assert_eq!(
        parts(&format!("[TOOL_CALLS] [{b} {a}]")),
        ["C b {}".to_owned(), format!("B {a}] (this is no JSON list of calls)")]
    );
    for sampled in
        ["[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": [1, 2]}}]", "[TOOL_CALLS]f[ARGS]{\"x\": [1, 2]}"]
    {
        let parsed = events(MISTRAL, "", sampled);
        assert_eq!(parsed[0], ParseEvent::ToolCall { index: 0, id: None, name: "f".to_owned() });
        assert_eq!(arguments_of(&parsed), "{\"x\": [1, 2]}");
        assert_eq!(parsed.last(), Some(&ParseEvent::ToolCallEnd { index: 0 }));
    }
}

#[test]
fn phi() {
    let parts = |sampled: &str| PHI.parts("", sampled);
    let (a, b) =
        ("{\"name\": \"a\", \"arguments\": {\"s\": \"functools[1]\"}}", "{\"name\": \"b\", \"arguments\": {}}");
    let both = ["C a {\"s\": \"functools[1]\"}", "C b {}"];
    assert_eq!(parts(&format!("functools[{a}, {b}]<|eot_id|>")), both);
    assert_eq!(parts(&format!("<|tool_call|>[{a},{b}]<|/tool_call|><|eot_id|>")), both);
    assert_eq!(parts("import functools.<|eot_id|>"), ["T import functools."]);
    assert_eq!(parts("a<|/tool_call|>"), ["T a<|/tool_call|>"]);
    assert_eq!(parts(&format!("Well.\nfunctools[{b}")), ["T Well.", "C b {}"]);
    for (broken, error) in [
        ("functools[cache]", "this is no JSON list of calls"),
        ("<|tool_call|>", "nothing is called"),
        ("functools[{\"name\": 1, \"arguments\": {}}", "the call's `name` is not a string"),
    ] {
        assert_eq!(parts(broken), [format!("B {broken} ({error})")]);
    }
    let parsed = events(PHI, "", "functools[{\"name\": \"f\", \"arguments\": {\"x\": [1, 2]}}]");
    assert_eq!(arguments_of(&parsed), "{\"x\": [1, 2]}");
    assert_eq!(parsed.last(), Some(&ParseEvent::ToolCallEnd { index: 0 }));
}

#[test]
fn gemma() {
    let parts = |sampled: &str| GEMMA.parts("", sampled);
    let call = |body: &str| format!("<start_function_call>{body}<end_function_call>");
    let body = "call:get_weather{city:<escape>Paris, {x}<escape>,days:3,deep:{list:[1,<escape>a<escape>],on:true},\
                big:123456789012345678901234, bare:north}";
    assert_eq!(
        parts(&format!("I call.\n{}<|eot_id|>", call(body))),
        [
            "T I call.",
            "C get_weather {\"city\": \"Paris, {x}\", \"days\": 3, \"deep\": {\"list\": [1, \"a\"], \"on\": true}, \
             \"big\": 123456789012345678901234, \"bare\": \"north\"}"
        ]
    );
    assert_eq!(parts(&(call("call:a{}") + &call("call:b{x:[]}"))), ["C a {}", "C b {\"x\": []}"]);
    assert_eq!(parts("<|tool_call>call:f{x:<|\"|>a}<|\"|>}<tool_call|>"), ["C f {\"x\": \"a}\"}"]);
    for (body, error) in [
        ("call:f{x:}", "an argument has no value"),
        ("call:f{x}", "an argument has no name"),
        ("f{}", "the call does not begin with `call:`"),
        ("call:{}", "the call has no name"),
        ("call:f{x:1", "no `}` ends the arguments"),
        ("call:f{x:[1}", "no `]` ends the arguments"),
        ("call:f{x:<escape>a}", "no `<escape>` ends a text of the arguments"),
        ("call:f{} x", "text follows the arguments"),
        ("call:f", "nothing is called"),
    ] {
        assert_eq!(parts(&call(body)), [format!("B {} ({error})", call(body))]);
    }
    let deep = call(&format!("call:f{{x:{}}}", "[".repeat(100)));
    assert_eq!(parts(&deep), [format!("B {deep} (the arguments nest too deeply)")]);
    for cut in ["<start_function_call>call:f{x:1}", "<start_function_call>"] {
        assert_eq!(parts(cut), [format!("B {cut} (nothing ends the call)")]);
    }
    let parsed = events(GEMMA, "", &call("call:f{x:1}"));
    let named = ParseEvent::ToolCall { index: 0, id: None, name: "f".to_owned() };
    let arguments = ParseEvent::Arguments { index: 0, delta: "{\"x\": 1}".to_owned() };
    assert_eq!(parsed, [named, arguments, ParseEvent::ToolCallEnd { index: 0 }]);
}

#[test]
fn integers_keep_their_digits_in_every_family() {
    let json = "{\"x\": 123456789012345678901234567890}";
    let call = format!("{{\"name\": \"f\", \"arguments\": {json}}}");
    for (family, sampled) in [
        (QWEN_JSON, format!("<tool_call>\n{call}\n</tool_call>")),
        (
            QWEN_XML,
            "<tool_call>\n<function=f>\n<parameter=x>\n123456789012345678901234567890\n</parameter>\n</function>\n</tool_call>"
                .to_owned(),
        ),
        (DEEPSEEK, format!("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{json}<｜tool▁call▁end｜>")),
        (HARMONY, format!(" to=functions.f<|channel|>commentary<|message|>{json}<|call|>")),
        (LLAMA, call.clone()),
        (MISTRAL, format!("[TOOL_CALLS][{call}]")),
        (PHI, format!("functools[{call}]")),
        (GEMMA, "<start_function_call>call:f{x:123456789012345678901234567890}<end_function_call>".to_owned()),
    ] {
        assert_eq!(family.parts("", &sampled), [format!("C f {json}")], "{sampled}");
    }
}

#[test]
fn role_colon() {
    for (sampled, text, termination, after) in [
        (" Hello.\n\nUser:", "T Hello.", Termination::StopSequence, 0),
        (" a\n\nUser: b", "T a", Termination::StopSequence, 2),
        (" a<|im_end|>", "T a", Termination::Eos, 0),
        (" a\n\nUser:<|im_end|>", "T a", Termination::StopSequence, 1),
        ("a\n\n", "T a", Termination::Malformed, 0),
        ("  a\n\nUs", "T  a\n\nUs", Termination::Malformed, 0),
    ] {
        let parsed = ROLE_COLON.parse("", sampled, &[]);
        assert_eq!(described(&parsed), [text]);
        assert_eq!((parsed.termination, parsed.tokens_after_stop), (termination, after), "{sampled}");
    }
}

#[test]
fn marks_that_are_spelled_out_are_text_where_there_is_a_token_for_them() {
    let sampled = "<think>a</think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let parse = |tokenizer: &str| {
        let tokenizer = vector_tokenizer(tokenizer);
        let ends = TurnEnds { tokens: &[], text: None };
        let mut parser = StreamParser::new(&tokenizer, ResponseFormat::QwenJson, ends, &[], &[]);
        parser.feed(&tokenizer.encode_ordinary(sampled).unwrap());
        described(&parser.finish().1)
    };
    assert_eq!(parse("qwen3"), [format!("T {sampled}")]);
    assert_eq!(parse("llama3"), ["R a", "C f {}"]);
}

#[test]
fn what_is_certain_leaves_at_once() {
    let prompt = "<|im_start|>assistant\n";
    let text = |text: &str| ParseEvent::Text(text.to_owned());
    let arguments = |delta: &str| ParseEvent::Arguments { index: 0, delta: delta.to_owned() };
    let parsed = events(QWEN_JSON, prompt, "é </think\n");
    assert_eq!(
        parsed.iter().map(|event| matches!(event, ParseEvent::Text(_))).collect::<Vec<_>>(),
        vec![true; parsed.len()]
    );
    // White space waits for what follows it.
    assert_eq!(&parsed[..2], [text("é"), text(" </")]);
    assert_eq!(parsed.last(), Some(&text("\n")));
    let parsed =
        events(QWEN_JSON, prompt, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, 2]}}\n</tool_call>");
    assert_eq!(parsed[0], ParseEvent::ToolCall { index: 0, id: None, name: "f".to_owned() });
    assert!(parsed[1..].iter().filter(|event| matches!(event, ParseEvent::Arguments { .. })).count() > 5);
    assert_eq!(parsed.last(), Some(&ParseEvent::ToolCallEnd { index: 0 }));
    let parsed = events(
        QWEN_XML,
        prompt,
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</parameter>\n</function>\n</tool_call>",
    );
    // What ends a value is known by what follows it.
    assert_eq!(parsed[1..3], [arguments("{\"a\": 1"), arguments(", \"b\": \"x\"}")]);
    // A call that the prompt has begun has its events.
    let parsed =
        events(QWEN_JSON, "<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": ", "{}}\n</tool_call>");
    assert_eq!(parsed[0], ParseEvent::ToolCall { index: 0, id: None, name: "f".to_owned() });
    assert_eq!(parsed.last(), Some(&ParseEvent::ToolCallEnd { index: 0 }));
}

#[test]
fn a_message_has_openais_shape() {
    let message = |sampled: &str| serde_json::to_value(QWEN_JSON.parse("", sampled, &[]).message()).unwrap();
    let call = json!({"type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    assert_eq!(
        message(
            "<think>\nr\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call><|im_end|>"
        ),
        json!({"role": "assistant", "content": null, "tool_calls": [call], "reasoning_content": "r"})
    );
    assert_eq!(message("<|im_end|>"), json!({"role": "assistant", "content": ""}));
}

#[test]
fn glms_calls_are_pairs_of_keys_and_values() {
    let prompt = "<|assistant|><think>";
    for (sampled, parts) in [
        ("r</think>\na <|user|>", vec!["R r", "T a "]),
        ("</think>a<tool_call>f</tool_call><|observation|>", vec!["T a", "C f {}"]),
        (
            "r</think>\n<tool_call>get-x.y\n<arg_key> k </arg_key>\n<arg_value> é\n</arg_value>\n<arg_key>n</arg_key>\
             <arg_value>[1, 2]</arg_value>\n</tool_call><tool_call>g</tool_call><|observation|>",
            vec!["R r", "C get-x.y {\"k\": \" é\\n\", \"n\": [1, 2]}", "C g {}"],
        ),
        (
            "r</think><tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call><|user|>",
            vec!["R r", "C f {\"x\": 1}"],
        ),
        // A call in reasoning that has no end is a call; one in reasoning that has an end is quoted.
        ("r<tool_call>f</tool_call><|observation|>", vec!["R r", "C f {}"]),
        ("r<tool_call>f</tool_call></think>a<|user|>", vec!["R r<tool_call>f</tool_call>", "T a"]),
    ] {
        assert_eq!(GLM.parts(prompt, sampled), parts, "{sampled}");
    }
    for (call, error) in [
        ("<tool_call></tool_call>", "the call is empty"),
        ("<tool_call>f g</tool_call>", "nothing is called"),
        ("<tool_call>f<arg_key> </arg_key><arg_value>1</arg_value></tool_call>", "an argument has no name"),
        ("<tool_call>f<arg_key>a</arg_key>x<arg_value>1</arg_value></tool_call>", "text stands beside the arguments"),
        ("<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>x</tool_call>", "text stands beside the arguments"),
        ("<tool_call>f<arg_key>a</arg_key><arg_value>1</tool_call>", "the last argument is not whole"),
        ("<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>", "nothing ends the call"),
    ] {
        let parsed = GLM.parse(prompt, &format!("</think>{call}<|observation|>"), &[]);
        let [part] = &parsed.parts[..] else { panic!("{parsed:?}") };
        assert_eq!(part.content, PartContent::BrokenToolCall { error: error.to_owned() }, "{call}");
        assert_eq!(parsed.text_of(part), call);
    }
    // The tool says of which type a value is.
    let properties = json!({"a": {"type": "string"}, "b": {"type": "integer"}});
    let tool = json!({"name": "f", "parameters": {"type": "object", "properties": properties}});
    let call = "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>b</arg_key><arg_value>1</arg_value></tool_call>";
    let parsed = GLM.parse(prompt, &format!("</think>{call}<|observation|>"), &[tool]);
    assert_eq!(described(&parsed), ["C f {\"a\": \"1\", \"b\": 1}"]);
    assert_eq!(parsed.termination, Termination::StopSequence);
}
