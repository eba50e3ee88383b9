//! Arguments that look like something else: like another type, like a mark, like a name.

use serde_json::{Value, json};

use super::dsml::DSML;
use super::{DEEPSEEK, Family, GEMMA, GLM, HARMONY, KIMI, LLAMA, MISTRAL, PHI, QWEN_JSON, QWEN_XML, described, events};
use crate::parsing::parse_event::ParseEvent;

/// Types of parameters are those of Pydantic's enums, in every family that writes none.
#[test]
fn a_value_that_is_to_be_a_string_behind_a_reference_stays_a_string() {
    let id = json!({"type": "string", "enum": ["42", "007"]});
    let parameters = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/Id"}}, "$defs": {"Id": id}});
    let tools = [json!({"type": "function", "function": {"name": "f", "parameters": parameters}})];
    for (family, sampled) in [
        (
            QWEN_XML,
            "</think>\n\n<tool_call>\n<function=f>\n<parameter=p>\n42\n</parameter>\n</function>\n</tool_call><|im_end|>",
        ),
        (GLM, "</think><tool_call>f<arg_key>p</arg_key><arg_value>42</arg_value></tool_call><|user|>"),
    ] {
        let prompt = if family.1 == "glm" { "<|assistant|><think>" } else { "<|im_start|>assistant\n<think>\n" };
        assert_eq!(described(&family.parse(prompt, sampled, &tools)), ["C f {\"p\": \"42\"}"]);
    }
}

/// The parts of what was sampled, which are the same token by token.
fn parts(family: Family, sampled: &str) -> Vec<String> {
    let whole = family.parts("", sampled);
    let mut parser = family.parser("", &[]);
    for token in family.tokenizer().encode_with_specials(sampled).unwrap() {
        parser.feed(&[token]);
    }
    assert_eq!(described(&parser.finish().1), whole, "{sampled}");
    whole
}

/// A call of `f` with the one argument `p`, as each family writes it, with what it writes behind it.
fn calls(value: &str) -> Vec<(Family, String)> {
    let json = json!({ "p": value }).to_string();
    let call = format!("{{\"name\": \"f\", \"arguments\": {json}}}");
    vec![
        (QWEN_JSON, format!("<tool_call>\n{call}\n</tool_call>")),
        (
            QWEN_XML,
            format!("<tool_call>\n<function=f>\n<parameter=p>\n{value}\n</parameter>\n</function>\n</tool_call>"),
        ),
        (GLM, format!("<tool_call>f\n<arg_key>p</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>")),
        (
            DEEPSEEK,
            format!(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{json}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            ),
        ),
        (
            DSML,
            format!(
                "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"p\" string=\"true\">{value}\
                 </｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"
            ),
        ),
        (
            KIMI,
            format!(
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{json}\
                 <|tool_call_end|><|tool_calls_section_end|>"
            ),
        ),
        (HARMONY, format!(" to=functions.f<|channel|>commentary<|message|>{json}<|call|>")),
        (LLAMA, call.replace("arguments", "parameters")),
        (MISTRAL, format!("[TOOL_CALLS] [{call}]")),
        (MISTRAL, format!("[TOOL_CALLS]f[ARGS]{json}")),
        (PHI, format!("<|tool_call|>[{call}]<|/tool_call|>")),
        (GEMMA, format!("<start_function_call>call:f{{p:<escape>{value}<escape>}}<end_function_call>")),
    ]
}

#[test]
fn a_value_may_hold_the_marks_of_its_own_format() {
    let marks = [
        "<a>\n</parameter>\n<!-- end -->\n</a>",
        "</parameter>\n</function>",
        "a </tool_call> b",
        "</tool_call>",
        "<tool_call>",
        "a <tool_call>\n<function=g>\n</function>\n</tool_call> b",
        "</arg_value> <arg_key",
        "<｜tool▁call▁end｜> <｜tool▁calls▁end｜> <｜tool▁call▁begin｜> x",
        "</｜DSML｜ parameter> x </｜DSML｜ invoke> y </｜DSML｜ calls>",
        "<|tool_call_end|> <|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_argument_begin|>",
        "<|end|> <|start|>assistant <|channel|> <|message|>",
        "[TOOL_CALLS] [ARGS] [CALL_ID] functools[ <|tool_call|> <|/tool_call|>",
        "<start_function_call> <end_function_call> <escape> x",
        "<think> </think>",
        "\"quoted\", {braces}",
    ];
    for (value, place) in marks.iter().flat_map(|value| (0..12).map(move |place| (value, place))) {
        let (family, call) = calls(value).swap_remove(place);
        let plain = calls("v").swap_remove(place).1;
        let expected = |value: &str, parts: &[String]| {
            let raw = parts[0].rsplit_once("f {").map(|(_, raw)| format!("{{{raw}")).unwrap_or_default();
            assert_eq!(serde_json::from_str::<Value>(&raw).ok(), Some(json!({ "p": value })), "{call}: {parts:?}");
        };
        expected(value, &parts(family, &call));
        // Another call may follow.
        if !matches!(family.0, crate::ResponseFormat::Harmony | crate::ResponseFormat::LlamaJson) {
            let two = parts(family, &format!("{call}\n{plain}"));
            expected(value, &two[..1]);
            expected("v", &two[1..]);
            assert_eq!(two.len(), 2, "{call}: {two:?}");
        }
    }
}

#[test]
fn a_call_that_does_not_end_within_its_text_swallows_nothing() {
    for (family, broken) in [
        (QWEN_XML, "<tool_call>\n<function=f>\n<parameter=p>\n1\n</function>\n</tool_call>"),
        (QWEN_XML, "<tool_call>\n<function=f>\n<parameter=ids: [1, 2]</parameter>\n</function>\n</tool_call>"),
        (QWEN_XML, "<tool_call>\n<function=f\n<parameter=p>\n1\n</parameter>\n</function>\n</tool_call>"),
        (QWEN_JSON, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"p\": \"a}}\n</tool_call>"),
        (QWEN_JSON, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"p\": \"a \"b\"\"}}\n</tool_call>"),
        (GLM, "<tool_call>f\n<arg_key>p</arg_key>\n<arg_value>1</tool_call>"),
        (GLM, "<tool_call>f\n<arg_key>ids: [1]\n<arg_value>1</arg_value>\n</tool_call>"),
        (DEEPSEEK, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"p\": \"a}<｜tool▁call▁end｜>"),
        (KIMI, "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"p\": \"a}<|tool_call_end|>"),
        (DSML, "<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"p\" string=\"true\">1\n</｜DSML｜ invoke>"),
        (MISTRAL, "[TOOL_CALLS]f[ARGS]{\"p\": \"a"),
        (GEMMA, "<start_function_call>call:f{p:<escape>a}<end_function_call>"),
    ] {
        let place = match family.0 {
            crate::ResponseFormat::Mistral => 9,
            format => calls("v").iter().position(|(family, _)| family.0 == format).unwrap(),
        };
        let good = calls("v").swap_remove(place).1;
        let read = parts(family, &format!("{broken}\n\n{good}"));
        assert!(read.len() == 2 && read[0].starts_with("B ") && read[1].ends_with("\"v\"}"), "{broken}: {read:?}");
        assert!(read[0].starts_with(&format!("B {broken}")), "{read:?}");
        // White space behind it is text's, as it stands in the content.
        if family.0 != crate::ResponseFormat::Mistral {
            let read = parts(family, &format!("{broken}\n\nI am done."));
            assert_eq!(read[1..], ["T \n\nI am done."], "{read:?}");
        }
    }
}

#[test]
fn an_argument_that_stands_there_twice_breaks_the_call() {
    let xml = "<parameter=p>\n1\n</parameter>\n<parameter=p>\n2\n</parameter>";
    let pair = "<arg_key>p</arg_key><arg_value>1</arg_value>";
    for (family, broken) in [
        (QWEN_XML, format!("<tool_call>\n<function=f>\n{xml}\n</function>\n</tool_call>")),
        (GLM, format!("<tool_call>f{pair}{pair}</tool_call>")),
        (QWEN_JSON, "<tool_call>{\"name\": \"f\", \"arguments\": {\"p\": 1, \"p\": 2}}</tool_call>".to_owned()),
        (DEEPSEEK, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"p\": {\"a\": 1, \"a\": 1}}<｜tool▁call▁end｜>".to_owned()),
        (LLAMA, "{\"name\": \"f\", \"parameters\": {\"p\": 1, \"p\": 2}}".to_owned()),
        (GEMMA, "<start_function_call>call:f{p:1,p:2}<end_function_call>".to_owned()),
    ] {
        let read = parts(family, &broken);
        assert!(read.len() == 1 && read[0].starts_with("B ") && read[0].contains("twice"), "{read:?}");
        let parsed = events(family, "", &broken);
        assert!(!parsed.iter().any(|event| matches!(event, ParseEvent::ToolCallEnd { .. })), "{parsed:?}");
    }
}

/// A value that slipped into the name is no argument of that name.
#[test]
fn a_name_that_holds_more_than_a_name_breaks_the_call_unless_the_tool_declares_it() {
    let call = |family: Family, name: &str| match family.0 {
        crate::ResponseFormat::QwenXml => {
            format!("<tool_call>\n<function=f>\n<parameter={name}>\n2\n</parameter>\n</function>\n</tool_call>")
        }
        crate::ResponseFormat::Glm => {
            format!("<tool_call>f<arg_key>{name}</arg_key><arg_value>2</arg_value></tool_call>")
        }
        _ => format!("<start_function_call>call:f{{{name}:2}}<end_function_call>"),
    };
    let tool = |property: &str| {
        [
            json!({"type": "function", "function": {"name": "f", "parameters": {"properties": {property: {"type": "integer"}}}}}),
        ]
    };
    for family in [QWEN_XML, GLM, GEMMA] {
        for name in ["p: 1", "p:1", "p 1", "p=1", "p=\"1\"", "\"p\"", "'p'", "p>", "`p`"] {
            let holds = |marks: &[char]| name.contains(marks);
            // What ends a name is no part of it.
            match family.0 {
                crate::ResponseFormat::QwenXml if holds(&['>']) => continue,
                crate::ResponseFormat::Glm | crate::ResponseFormat::QwenXml => {}
                _ if holds(&[':']) => continue,
                _ => {}
            }
            let written = call(family, name);
            let read = |property: &str| {
                let tools = tool(property);
                let whole = described(&family.parse("", &written, &tools));
                let mut parser = family.parser("", &tools);
                for token in family.tokenizer().encode_with_specials(&written).unwrap() {
                    parser.feed(&[token]);
                }
                assert_eq!(described(&parser.finish().1), whole, "{written}");
                whole
            };
            let broken = read("p");
            assert!(broken.len() == 1 && broken[0].starts_with(&format!("B {written}")), "{broken:?}");
            assert!(broken[0].contains("is no name of an argument"), "{broken:?}");
            let arguments = [format!("C f {}", json!({ name: 2 }).to_string().replace("\":2", "\": 2"))];
            assert_eq!(read(name), arguments, "{written}");
        }
        let other = described(&family.parse("", &call(family, "q-1.a"), &tool("p")));
        assert_eq!(other, ["C f {\"q-1.a\": 2}"]);
    }
}

/// The JSON text of a call's arguments that has left when `sampled` has come, and what is read in the end.
fn known_by(family: Family, sampled: &str) -> (String, Vec<String>) {
    let object = json!({"type": "object"});
    let tools = [json!({"name": "f", "parameters": {"properties": {"n": {"type": "integer"}, "o": object}}})];
    let mut parser = family.parser("", &tools);
    let events = parser.feed(&family.tokenizer().encode_with_specials(sampled).unwrap());
    let pieces = events.iter().filter_map(|event| match event {
        ParseEvent::Arguments { delta, .. } => Some(&**delta),
        _ => None,
    });
    (pieces.collect(), described(&parser.finish().1))
}

#[test]
fn a_value_that_is_never_text_is_certain_at_its_mark() {
    for (family, [head, close, next, end]) in [
        (
            QWEN_XML,
            [
                "<tool_call>\n<function=f>\n<parameter=n>\n",
                "\n</parameter>",
                "\n<parameter=o>\n",
                "\n</function>\n</tool_call>",
            ],
        ),
        (
            GLM,
            [
                "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>",
                "</arg_value>",
                "\n<arg_key>o</arg_key>\n<arg_value>",
                "\n</tool_call>",
            ],
        ),
        (
            DSML,
            [
                "<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"n\" string=\"false\">",
                "</｜DSML｜ parameter>",
                "\n<｜DSML｜ parameter name=\"o\" string=\"false\">",
                "\n</｜DSML｜ invoke>",
            ],
        ),
    ] {
        let known = |sampled: &str| known_by(family, sampled).0;
        assert_eq!(known(&format!("{head}2{close}")), "{\"n\": 2", "{family:?}");
        // Within a string the mark is text.
        let started = format!("{head}2{close}{next}{{\"a\": \"{close}");
        assert_eq!(known(&started), "{\"n\": 2", "{family:?}");
        let object = json!({ "a": close });
        let whole = format!("{head}2{close}{next}{object}{close}");
        let arguments = format!("{{\"n\": 2, \"o\": {object}");
        assert_eq!(known(&whole), arguments, "{family:?}");
        assert_eq!(known_by(family, &format!("{whole}{end}")).1, [format!("C f {arguments}}}")]);
        // What stands behind it breaks the call.
        let broken = format!("{head}2{close} now{end}");
        let read = known_by(family, &broken).1;
        assert!(read.len() == 1 && read[0].contains("text stands beside"), "{read:?}");
    }
    // Nothing but text or the end can follow the function.
    let done = "<tool_call>\n<function=f>\n<parameter=n>\n2\n</parameter>\n</function>";
    assert_eq!(known_by(QWEN_XML, done).0, "{\"n\": 2}");
}

#[test]
fn arguments_leave_while_a_mark_in_their_text_is_in_doubt() {
    let (xml, pair) = ("<tool_call>\n<function=f>\n<parameter=p>\n", "<tool_call>f<arg_key>p</arg_key><arg_value>");
    for (family, head, next) in [(QWEN_XML, xml, "\n</parameter>\n<parameter="), (GLM, pair, "</arg_value>\n<arg_key>")]
    {
        let known = known_by(family, &format!("{head}a </tool_call> b{next}"));
        assert_eq!(known.0, "{\"p\": \"a </tool_call> b\"", "{family:?}");
    }
}
