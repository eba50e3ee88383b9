//! Arguments that look like something else: like another type, like a mark, like a name.

use serde_json::json;

use super::{GLM, QWEN_XML, described};

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
