use fulgurite_types::Message;
use serde_json::{Value, json};

use super::{AnswerGrammar, AnswerShape};
use crate::testing::{family_renderer, vector_tokenizer};
use crate::{FormatOptions, RenderError, Renderer, renderer_of};

fn grammar(format: &str, tokenizer: &str, shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
    grammar_of(&*renderer_of(vector_tokenizer(tokenizer), format, &FormatOptions::default()).unwrap(), shape)
}

fn grammar_of(renderer: &dyn Renderer, shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
    let prompt = renderer.render_prompt(&[Message::text("user", "<think>?")], &[]).unwrap().tokens;
    renderer.answer_grammar(&prompt, shape)
}

fn lark(format: &str, tokenizer: &str, shape: &AnswerShape<'_>) -> String {
    match grammar(format, tokenizer, shape).unwrap() {
        AnswerGrammar::Lark { grammar, .. } => with_names(tokenizer, &grammar),
        other => panic!("{other:?}"),
    }
}

/// The grammar with the names of tokens instead of their ids.
fn with_names(tokenizer: &str, grammar: &str) -> String {
    let tokenizer = vector_tokenizer(tokenizer);
    let mut parts = grammar.split("<[");
    let mut named = parts.next().unwrap().to_owned();
    for part in parts {
        let (id, rest) = part.split_once("]>").unwrap();
        named.push_str(&tokenizer.decode(&[id.parse().unwrap()]));
        named.push_str(rest);
    }
    named
}

fn tool(parameters: Value) -> [Value; 1] {
    [json!({ "type": "function", "function": { "name": "f", "parameters": parameters } })]
}

/// A rule of a grammar, or a terminal.
fn rule<'g>(grammar: &'g str, name: &str) -> &'g str {
    grammar.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap()
}

#[test]
fn reasoning_stands_before_the_answer_as_far_as_the_prompt_has_not_written_it() {
    let schema = json!({ "type": "boolean" });
    let shape = AnswerShape::Json { schema: &schema, tools: &[] };
    let start = |format: &str, tokenizer: &str| {
        let grammar = lark(format, tokenizer, &shape);
        assert!(rule(&grammar, "body").contains("%json {\"type\":\"boolean\"}"));
        rule(&grammar, "start").to_owned()
    };
    assert_eq!(start("qwen3", "qwen3"), r#"(<think> TEXT_0? </think> "\n\n")? body"#);
    assert_eq!(start("qwen3_5", "qwen3"), r#"TEXT_0? </think> "\n\n" body"#);
    assert_eq!(start("kimi_k25", "kimi"), "TEXT_0? </think>  body");
    assert_eq!(
        start("gpt_oss_low_reasoning", "gpt_oss"),
        r#"(<|channel|> "analysis" <|message|> TEXT_0? <|end|> <|start|> "assistant")? body"#
    );
    for (format, tokenizer) in [
        ("chatml", "qwen3"),
        ("qwen3_disable_thinking", "qwen3"),
        ("qwen3_5_disable_thinking", "qwen3"),
        ("deepseekv3", "deepseek"),
    ] {
        assert_eq!(grammar(format, tokenizer, &shape).unwrap(), AnswerGrammar::JsonSchema(schema.clone()), "{format}");
    }
    match grammar("qwen3", "qwen3", &shape).unwrap() {
        AnswerGrammar::Lark { without_reasoning, .. } => assert_eq!(without_reasoning, Some(schema)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_are_spelled_as_each_family_writes_them() {
    let tools = tool(json!({ "type": "object" }));
    let one = |format: &str, tokenizer: &str| {
        let grammar = lark(format, tokenizer, &AnswerShape::Calls { tools: &tools, single: true });
        format!("{}; {}", rule(&grammar, "body"), rule(&grammar, "call"))
    };
    let arguments = r#"%json {"type":"object"}"#;
    assert_eq!(
        one("qwen3", "qwen3"),
        format!(r#"call; <tool_call> "\n" "{{\"name\": \"f\", \"arguments\": " {arguments} "}}" "\n" </tool_call>"#)
    );
    assert_eq!(
        one("kimi_k25", "kimi"),
        format!(
            "<|tool_calls_section_begin|> call <|tool_calls_section_end|>; <|tool_call_begin|> \"functions.f:\" \
             /[0-9]{{1,3}}/ <|tool_call_argument_begin|> {arguments} <|tool_call_end|>"
        )
    );
    assert_eq!(
        one("gpt_oss_low_reasoning", "gpt_oss"),
        format!(
            "call; <|channel|> \"commentary to=functions.f \" <|constrain|> \"json\" <|message|> {arguments} <|call|>"
        )
    );
    let many = lark("deepseekv3", "deepseek", &AnswerShape::Calls { tools: &tools, single: false });
    assert_eq!(rule(&many, "body"), "<｜tool▁calls▁begin｜> call ( call)* <｜tool▁calls▁end｜>");
    let call = format!("<｜tool▁call▁begin｜> \"f\" <｜tool▁sep｜> {arguments} <｜tool▁call▁end｜>");
    assert_eq!(rule(&many, "call"), call);
}

#[test]
fn a_call_of_llamas_is_json_that_no_answer_may_look_like() {
    let llama = family_renderer("llama3_1");
    let tools = tool(json!({ "type": "object" }));
    match grammar_of(&llama, &AnswerShape::Calls { tools: &tools, single: false }).unwrap() {
        AnswerGrammar::Lark { grammar, .. } => assert_eq!(
            (rule(&grammar, "body"), rule(&grammar, "call")),
            ("call", r#""{\"name\": \"f\", \"parameters\": " %json {"type":"object"} "}""#)
        ),
        other => panic!("{other:?}"),
    }
    let json = |schema: &Value| grammar_of(&llama, &AnswerShape::Json { schema, tools: &[] });
    let parameters = json!({ "type": "object", "required": ["name", "answer"] });
    assert_eq!(json(&parameters).unwrap(), AnswerGrammar::JsonSchema(parameters));
    for ambiguous in [json!({ "type": "object" }), json!({ "type": "object", "required": ["name"] }), json!(true)] {
        let error = json(&ambiguous).unwrap_err().to_string();
        assert!(error.contains("requires a property of another name"), "{error}");
    }
}

#[test]
fn calls_behind_mistrals_mark_are_a_list() {
    let mistral = family_renderer("mistral");
    let tools = tool(json!({ "type": "object" }));
    match grammar_of(&mistral, &AnswerShape::Calls { tools: &tools, single: false }).unwrap() {
        AnswerGrammar::Lark { grammar, .. } => {
            let mark = mistral.tokenizer().token_to_id("[TOOL_CALLS]").unwrap();
            let body = format!("<[{mark}]> \"[\" call (\", \" call)* \"]\"");
            assert_eq!(rule(&grammar, "body").trim_end(), body);
            let call = r#""{\"name\": \"f\", \"arguments\": " %json {"type":"object"} "}""#;
            assert_eq!(rule(&grammar, "call"), call);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_in_xml_are_text_where_the_schema_wants_text_and_json_elsewhere() {
    let parameter = |schema: Value| {
        let properties = json!({ "k": schema });
        let tools = tool(json!({ "type": "object", "properties": properties, "required": ["k"] }));
        let grammar = lark("qwen3_5", "qwen3", &AnswerShape::Calls { tools: &tools, single: true });
        let call = rule(&grammar, "call");
        let value = call.strip_prefix(r#"<tool_call> "\n<function=f>\n" "<parameter=k>\n" "#).unwrap();
        let value = value.strip_suffix(r#" "</function>\n" </tool_call>"#).unwrap();
        if value.starts_with("TEXT_") { rule(&grammar, value) } else { value }.to_owned()
    };
    let end = r#""\n</parameter>\n""#;
    let any_text = r"/(?s:.)*\n<\/parameter>\n/ & ~/(?s:.)*<\/parameter>(?s:.){2,}/";
    assert_eq!(parameter(json!({ "type": "string" })), any_text);
    assert_eq!(parameter(json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] })), any_text);
    assert_eq!(parameter(json!({ "type": ["string", "integer"], "default": 1 })), any_text);
    assert_eq!(parameter(json!({ "type": "string", "maxLength": 4 })), any_text.replacen('*', "{0,4}", 1));
    assert_eq!(parameter(json!({ "type": "integer" })), format!(r#"%json {{"type":"integer"}} {end}"#));
    assert_eq!(parameter(json!({ "$ref": "#/$defs/x" })), format!(r##"%json {{"$ref":"#/$defs/x"}} {end}"##));
    assert_eq!(parameter(json!({ "const": "2" })), format!(r#"("2") {end}"#));
    assert_eq!(parameter(json!({ "enum": ["a\"b", 2, null] })), format!(r#"("a\"b" | "2" | "null") {end}"#));
    assert_eq!(
        parameter(json!({ "anyOf": [{ "enum": ["a", "b"], "type": "string" }, { "type": "null" }] })),
        format!(r#"("a" | "b" | "null") {end}"#)
    );
    let optional = tool(json!({ "type": "object", "properties": { "k": { "type": "boolean" } } }));
    let grammar = lark("qwen3_5", "qwen3", &AnswerShape::Calls { tools: &optional, single: true });
    assert!(grammar.contains(r#"("<parameter=k>\n" %json {"type":"boolean"} "\n</parameter>\n")?"#), "{grammar}");
}

#[test]
fn a_parameter_whose_type_stands_behind_a_reference_is_spelled_as_its_type() {
    let definitions =
        json!({ "Id": { "type": "string", "enum": ["42", "b"] }, "Text": { "allOf": [{ "type": "string" }] } });
    let call = |parameters: Value, format: &str, tokenizer: &str| {
        let tools = tool(parameters);
        let grammar = lark(format, tokenizer, &AnswerShape::Calls { tools: &tools, single: true });
        rule(&grammar, "call").to_owned()
    };
    let part = json!({ "properties": { "k": { "$ref": "#/$defs/Id" } }, "required": ["k"] });
    for parameters in [
        json!({ "properties": { "k": { "$ref": "#/$defs/Id", "description": "d" } }, "required": ["k"], "$defs": definitions }),
        json!({ "$ref": "#/$defs/P", "$defs": { "Id": definitions["Id"], "P": part } }),
        json!({ "allOf": [part], "$defs": definitions }),
        json!({ "properties": { "k": { "$ref": "#/properties/l" }, "l": definitions["Id"] }, "required": ["k"] }),
    ] {
        let spelled = call(parameters.clone(), "qwen3_5", "qwen3");
        assert!(spelled.contains(r#""<parameter=k>\n" ("42" | "b") "#), "{spelled}");
        let spelled = call(parameters, "deepseekv4_1", "deepseek");
        assert!(spelled.contains(r#"string=\"true\">" ("42</" | "b</") "#), "{spelled}");
    }
    let text = json!({ "properties": { "k": { "$ref": "#/$defs/Text" } }, "$defs": definitions });
    assert!(call(text, "qwen3_5", "qwen3").contains(r#""<parameter=k>\n" TEXT_"#));
}

#[test]
fn arguments_in_deepseeks_markup_say_whether_they_are_text() {
    let parameter = |schema: Value| {
        let properties = json!({ "k": schema });
        let tools = tool(json!({ "type": "object", "properties": properties, "required": ["k"] }));
        let grammar = lark("deepseekv4_1", "deepseek", &AnswerShape::Calls { tools: &tools, single: true });
        assert_eq!(rule(&grammar, "start"), "TEXT_0? </think>  body");
        assert_eq!(rule(&grammar, "body"), r#""\n\n"? "<" ｜DSML｜ " calls>\n" call "</" ｜DSML｜ " calls>""#);
        let call = rule(&grammar, "call");
        let call =
            call.strip_prefix(r#""<" ｜DSML｜ " invoke name=\"f\">\n" "<" ｜DSML｜ " parameter name=\"k\" "#).unwrap();
        let call = call.strip_suffix(r#" ｜DSML｜ " parameter>\n" "</" ｜DSML｜ " invoke>\n""#).unwrap();
        match call.strip_prefix(r#"string=\"true\">" "#) {
            Some(text) if text.starts_with("TEXT_") => rule(&grammar, text).to_owned(),
            _ => call.to_owned(),
        }
    };
    let json = |schema: &str| format!(r#"string=\"false\">" %json {schema} "</""#);
    assert_eq!(parameter(json!({ "type": "string", "description": "d" })), r"/(?s:.)*<\//");
    assert_eq!(parameter(json!({ "type": "string", "minLength": 1, "maxLength": 4 })), r"/(?s:.){1,4}<\//");
    assert_eq!(parameter(json!({ "enum": ["a", "a<"] })), r#"string=\"true\">" ("a</" | "a<</")"#);
    assert_eq!(parameter(json!({ "const": "a", "type": "string" })), r#"string=\"true\">" ("a</")"#);
    assert_eq!(parameter(json!({ "type": "integer" })), json(r#"{"type":"integer"}"#));
    for schema in [
        json!({ "enum": ["a", 1] }),
        json!({ "type": "string", "pattern": "a+" }),
        json!({ "type": ["string", "null"] }),
        json!({ "anyOf": [{ "type": "string" }] }),
        json!(true),
    ] {
        let spelled = if schema == json!(true) { "{}".to_owned() } else { schema.to_string() };
        assert_eq!(parameter(schema), json(&spelled));
    }
    let optional = tool(json!({ "type": "object", "properties": { "k": { "type": "boolean" } } }));
    let grammar = lark("deepseekv4_1", "deepseek", &AnswerShape::Calls { tools: &optional, single: false });
    assert!(grammar.contains(r#"%json {"type":"boolean"} "</" ｜DSML｜ " parameter>\n")?"#), "{grammar}");
    assert!(rule(&grammar, "body").contains("call ( call)*"), "{grammar}");
}

#[test]
fn what_cannot_be_spelled_is_refused_with_the_reason() {
    let refused = |format: &str, tokenizer: &str, tools: &[Value]| {
        grammar(format, tokenizer, &AnswerShape::Calls { tools, single: true }).unwrap_err().to_string()
    };
    let with = |properties: Value| tool(json!({ "type": "object", "properties": properties }));
    for (error, words) in [
        (
            refused("chatml", "qwen3", &tool(json!({}))),
            "the chatml format cannot keep an answer to this: it has no tool calls",
        ),
        (refused("qwen3", "qwen3", &[]), "there is no tool that could be called"),
        (refused("qwen3", "qwen3", &tool(json!({ "type": "string" }))), "are not an object's"),
        (refused("qwen3", "qwen3", &[json!({ "name": "a\"b" })]), "the tool `a\"b` cannot be told by its name"),
        (refused("qwen3_5", "qwen3", &tool(json!({ "not": {} }))), "`not` beside properties"),
        (refused("qwen3_5", "qwen3", &tool(json!({ "required": ["k"] }))), "`k` is required but not among"),
        (refused("qwen3_5", "qwen3", &with(json!({ "a>b": {} }))), "the name `a>b` cannot be written"),
        (refused("deepseekv4_1", "deepseek", &with(json!({ "a\"b": {} }))), "the name `a\"b` cannot be written"),
        (refused("qwen3_5", "qwen3", &with(json!({ "k": { "type": "string", "format": "date" } }))), "its `format`"),
        (
            refused(
                "qwen3_5",
                "qwen3",
                &with(json!({ "k": { "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": 1 }] } })),
            ),
            "its `minimum`",
        ),
        (refused("qwen3_5", "qwen3", &with(json!({ "k": { "enum": ["2", 2] } }))), "its value \"2\" cannot be written"),
    ] {
        assert!(error.contains(words), "{error}");
    }
}
