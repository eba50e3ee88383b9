use serde_json::{Value, json};

use crate::RenderError;

/// What a chat template wants messages to look like where templates differ, found out by rendering small
/// conversations.
///
/// Clients send OpenAI's messages; templates were written for the messages of their makers' training code. So every
/// message is given in the shape that its template reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TemplateDialect {
    /// Content as a list of parts; most templates want a string.
    pub(crate) content_in_parts: bool,
    /// The arguments of a call as the string of JSON that OpenAI's wire has. Else as the object in it, which is what
    /// vLLM gives to templates too: a template that writes JSON would quote a string once more.
    pub(crate) arguments_as_string: bool,
    /// Arguments may be text that is no JSON, as models and clients have them at times.
    pub(crate) takes_any_arguments: bool,
    /// Null content as the empty string.
    pub(crate) null_as_empty: bool,
    /// The field from which an assistant's reasoning is read.
    pub(crate) reasoning_field: Option<&'static str>,
}

/// Fields in which clients and templates keep an assistant's reasoning.
pub(crate) const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// A text that no template writes of its own accord.
const MARK: &str = "fulgurite9";

/// An id of the nine letters and digits that some templates insist on.
const CALL_ID: &str = "fulgurit9";

impl TemplateDialect {
    /// Finds the dialect out. `render` renders a list of messages.
    pub(crate) fn detect(render: impl Fn(Value) -> Result<String, RenderError>) -> Self {
        let shows = |messages: Value, text: &str| render(messages).is_ok_and(|rendered| rendered.contains(text));
        let content_in_parts = !shows(json!([user(MARK.into())]), MARK)
            && shows(json!([user(json!([{"type": "text", "text": MARK}]))]), MARK);
        let text = |text: &str| match content_in_parts {
            true => json!([{"type": "text", "text": text}]),
            false => text.into(),
        };
        let calling = |content: Value, arguments: Value| {
            let function = json!({"name": "probe", "arguments": arguments});
            let call = json!({"id": CALL_ID, "type": "function", "function": function});
            json!({"role": "assistant", "content": content, "tool_calls": [call]})
        };
        let result = || json!({"role": "tool", "tool_call_id": CALL_ID, "name": "probe", "content": text("b")});
        let with_call = |call: Value| json!([user(text("a")), call, result()]);

        let object = json!({MARK: "c"});
        let string = object.to_string();
        // Python's own spelling of a dictionary is in no model's training data.
        let of_object = render(with_call(calling(text(""), object)));
        let writes_object = of_object.as_ref().is_ok_and(|rendered| !rendered.contains(&format!("'{MARK}'")));
        let arguments_as_string = !writes_object && render(with_call(calling(text(""), string.clone().into()))).is_ok();
        // A template that shows no arguments at all proves nothing.
        let takes_any_arguments = arguments_as_string
            || !of_object.is_ok_and(|rendered| rendered.contains(MARK))
            || shows(with_call(calling(text(""), format!("{{{MARK}").into())), MARK);
        let arguments = if arguments_as_string { string.into() } else { json!({"c": "d"}) };

        let writes_null =
            render(with_call(calling(Value::Null, arguments.clone()))).is_ok_and(|rendered| !rendered.contains("None"));
        let reads = |field: &&str| {
            let mut plain = json!({"role": "assistant", "content": text("b")});
            let mut called = calling(text(""), arguments.clone());
            plain[*field] = MARK.into();
            called[*field] = MARK.into();
            shows(json!([user(text("a")), plain]), MARK) || shows(with_call(called), MARK)
        };
        Self {
            content_in_parts,
            arguments_as_string,
            takes_any_arguments,
            null_as_empty: !writes_null,
            reasoning_field: REASONING_FIELDS.into_iter().find(reads),
        }
    }
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Message;

    use super::*;
    use crate::python::python_json::{JsonStyle, to_json};
    use crate::python::python_text::from_json;
    use crate::templates::chat_template::ChatTemplate;
    use crate::templates::message_values::MessageValues;

    fn dialect(template: &str) -> TemplateDialect {
        let template = ChatTemplate::compile(template, None).unwrap();
        TemplateDialect::detect(|messages| template.render(from_json(&json!({"messages": messages}))))
    }

    fn as_json(value: &minijinja::Value) -> Value {
        serde_json::from_str(&to_json(value, &JsonStyle::default()).unwrap()).unwrap()
    }

    fn shaped(dialect: TemplateDialect, message: Value) -> Value {
        let message: Message = serde_json::from_value(message).unwrap();
        let values = MessageValues::new(Some(dialect), &|text, _| text.into());
        as_json(&values.messages(&[message]))[0].take()
    }

    #[test]
    fn a_string_is_preferred_and_parts_are_given_to_those_who_want_them() {
        let strings = dialect("{% for m in messages %}{{ m.content }}{% endfor %}");
        let parts = dialect("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}");
        let message =
            json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        assert_eq!(shaped(strings, message.clone())["content"], "ab");
        assert_eq!(shaped(parts, message.clone()), message);
        let text = json!({"role": "user", "content": "a"});
        assert_eq!(shaped(strings, text.clone()), text);
        assert_eq!(shaped(parts, text)["content"], json!([{"type": "text", "text": "a"}]));
        let image = json!({"role": "user", "content": [{"type": "image"}]});
        assert_eq!(shaped(strings, image.clone()), image);
    }

    #[test]
    fn arguments_are_an_object_unless_the_template_needs_the_string() {
        let calls = |write: &str| {
            let call = format!("{{% for c in m.tool_calls or [] %}}{{{{ {write} }}}}{{% endfor %}}");
            dialect(&format!("{{% for m in messages %}}{{{{ m.content or '' }}}}{call}{{% endfor %}}"))
        };
        let call = |arguments: Value| {
            json!({"role": "assistant", "content": null, "tool_calls":
                [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]})
        };
        let arguments =
            |dialect, given: Value| shaped(dialect, call(given))["tool_calls"][0]["function"]["arguments"].clone();
        let writes_json = calls("c.function.arguments | tojson");
        for given in [json!("{\"a\":1}"), json!({"a": 1})] {
            assert_eq!(arguments(writes_json, given), json!({"a": 1}));
        }
        assert_eq!(arguments(writes_json, json!("")), json!({}));
        assert_eq!(arguments(writes_json, json!("{broken")), json!("{broken"));
        for concatenates in ["'x' + c.function.arguments", "'x' ~ c.function.arguments"] {
            let dialect = calls(concatenates);
            assert_eq!(arguments(dialect, json!("{\"a\":1}")), json!("{\"a\":1}"));
            assert_eq!(arguments(dialect, json!({"a": 1})), json!("{\"a\":1}"));
        }
    }

    #[test]
    fn arguments_that_are_no_object_are_the_field_of_one_where_the_template_takes_only_objects() {
        let dialect = dialect(
            "{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% for key, value in c.function.arguments | items %}{{ key ~ value }}{% endfor %}{% endfor %}{% endfor %}",
        );
        for (given, expected) in [
            ("{broken", json!({"arguments": "{broken"})),
            ("[1]", json!({"arguments": "[1]"})),
            ("{\"a\":1}", json!({"a": 1})),
            ("", json!({})),
        ] {
            let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": given}});
            let shaped = shaped(dialect, json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            assert_eq!(shaped["tool_calls"][0]["function"]["arguments"], expected);
        }
    }

    #[test]
    fn null_content_is_empty_only_where_the_template_trips_over_it() {
        let message = json!({"role": "assistant", "content": null});
        for (template, expected) in [
            ("{% for m in messages %}{{ 'a' + m.content }}{% endfor %}", json!("")),
            ("{% for m in messages %}{{ m.content }}{% endfor %}", json!("")),
            ("{% for m in messages %}{{ m.content or 'nothing' }}{% endfor %}", Value::Null),
        ] {
            assert_eq!(shaped(dialect(template), message.clone())["content"], expected, "{template}");
        }
    }

    #[test]
    fn reasoning_goes_where_the_template_reads_it() {
        let reads = |field: &str| dialect(&format!("{{% for m in messages %}}{{{{ m.{field} or '' }}}}{{% endfor %}}"));
        for field in REASONING_FIELDS {
            for given in [
                json!({"role": "assistant", "content": "a", "reasoning_content": "b"}),
                json!({"role": "assistant", "content": "a", "reasoning": "b"}),
                json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "b"}, {"type": "text", "text": "a"}]}),
            ] {
                let shaped = shaped(reads(field), given);
                assert_eq!((&shaped["content"], &shaped[field]), (&json!("a"), &json!("b")));
            }
        }
        assert_eq!(dialect("{% for m in messages %}{{ m.content }}{% endfor %}").reasoning_field, None);
    }

    #[test]
    fn bare_tools_are_wrapped() {
        let function = json!({"name": "f", "parameters": {}});
        let wrapped = json!({"type": "function", "function": function});
        let flat = json!({"type": "function", "name": "f", "parameters": {}});
        let values = MessageValues::new(Some(dialect("")), &|text, _| text.into());
        let shaped = |tools: &[Value]| as_json(&values.tools(tools));
        assert_eq!(shaped(&[function, wrapped.clone(), flat]), json!([wrapped, wrapped, wrapped]));
        assert_eq!(shaped(&[json!({"type": "web_search"})]), json!([{"type": "web_search"}]));
    }
}
