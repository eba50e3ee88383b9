//! What models of several families sample: reasoning, text and calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Setup;

/// A format with what its model samples: reasoning, text and a call.
pub struct Family {
    pub format: &'static str,
    pub tokenizer: &'static str,
    pub turn: &'static str,
    /// The call's id, where the format has one.
    pub id: Option<&'static str>,
    /// What follows the arguments of the call.
    pub end_of_call: &'static str,
    /// A call that breaks before it is clear what is called, and one that breaks later.
    pub broken: [&'static str; 2],
    pub stop: &'static str,
    /// A turn that says `text` only.
    pub plain_turn: fn(&str) -> String,
}

pub const QWEN3: Family = Family {
    format: "qwen3",
    tokenizer: "qwen3",
    turn: "<think>\nhm\n</think>\n\nLooking.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \
           \"days\": 2}}\n</tool_call><|im_end|>",
    id: None,
    end_of_call: "}}",
    broken: [
        "<tool_call>\nweather(Paris)\n</tool_call>",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}\n</tool_call>",
    ],
    stop: "<|im_end|>",
    plain_turn: |text| format!("<think>\nhm\n</think>\n\n{text}<|im_end|>"),
};
pub const QWEN3_5: Family = Family {
    format: "qwen3_5",
    tokenizer: "qwen3",
    turn: "hm\n</think>\n\nLooking.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n\
           <parameter=days>\n2\n</parameter>\n</function>\n</tool_call><|im_end|>",
    id: None,
    end_of_call: "</function>",
    broken: [
        "</think><tool_call>\n<weather>\n</tool_call>",
        "</think><tool_call>\n<function=weather>\n<parameter=days>\n2\n</parameter>\n</function> now\n</tool_call>",
    ],
    stop: "<|im_end|>",
    plain_turn: |text| format!("hm\n</think>\n\n{text}<|im_end|>"),
};
pub const KIMI: Family = Family {
    format: "kimi_k25",
    tokenizer: "kimi",
    turn: "hm</think>Looking.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0\
           <|tool_call_argument_begin|>{\"city\": \"Paris\", \"days\": 2}<|tool_call_end|><|tool_calls_section_end|><|im_end|>",
    id: Some("functions.weather:0"),
    end_of_call: "}<|tool_call_end|>",
    broken: [
        "</think><|tool_calls_section_begin|><|tool_call_begin|>weather<|tool_call_argument_begin|>{}<|tool_call_end|>\
         <|tool_calls_section_end|>",
        "</think><|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>\
         {\"days\": 2}}<|tool_call_end|><|tool_calls_section_end|>",
    ],
    stop: "<|im_end|>",
    plain_turn: |text| format!("hm</think>{text}<|im_end|>"),
};
pub const GPT_OSS: Family = Family {
    format: "gpt_oss_low_reasoning",
    tokenizer: "gpt_oss",
    turn: "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>Looking.<|end|>\
           <|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Paris\", \
           \"days\": 2}<|call|>",
    id: None,
    end_of_call: "}<|call|>",
    broken: [
        "<|channel|>commentary to=functions.weather<|end|>",
        "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"days\": 2}}<|end|>",
    ],
    stop: "<|return|>",
    plain_turn: |text| {
        format!("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{text}<|return|>")
    },
};
pub const FAMILIES: [Family; 4] = [QWEN3, QWEN3_5, KIMI, GPT_OSS];

impl Family {
    pub async fn setup(&self) -> Setup {
        Setup::of_family(self.format, self.tokenizer).await
    }

    /// The prompt that continues [`request`] and the answer to it, which had a call of this id, with the call's result.
    pub fn continued_after_result(&self, setup: &Setup, id: &Value) -> Vec<u32> {
        let chat = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Rain in Paris?" },
            { "role": "assistant", "content": "Looking.", "reasoning_content": "hm", "tool_calls": [{
                "id": id, "type": "function",
                "function": { "name": "weather", "arguments": "{\"city\": \"Paris\", \"days\": 2}" },
            }] },
            { "role": "tool", "tool_call_id": id, "content": "rain" },
            { "role": "user", "content": "Well?" },
        ]);
        setup.continued(&chat, &tools(), 3, &setup.sampled(self.turn))
    }
}

pub fn tools() -> Value {
    json!([{ "type": "function", "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {
            "type": "object",
            "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
            "required": ["city"],
        },
    } }])
}

pub fn request() -> Value {
    json!({
        "model": "tiny",
        "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Rain in Paris?" }],
        "tools": tools(),
        "tool_choice": "auto",
    })
}

/// What attributes below a prefix tell of a message.
pub fn message_below(attributes: &Value, prefix: &str) -> BTreeMap<String, Value> {
    let below = |(key, value): (&String, &Value)| Some((key.strip_prefix(prefix)?.to_owned(), value.clone()));
    attributes.as_object().unwrap().iter().filter_map(below).collect()
}

/// All that is recorded of a rollout's call but what must differ: ids, times, and how it was asked for.
pub async fn recorded(setup: &Setup, rollout: &str) -> Value {
    let mut attributes = setup.attributes(rollout).await;
    for differs in ["gen_ai.response.id", "gen_ai.request.is_stream"] {
        attributes.as_object_mut().unwrap().remove(differs).unwrap();
    }
    let generation = setup.generation_of(rollout).await;
    json!([
        attributes,
        generation.prompt_tokens,
        generation.sampled_tokens,
        generation.logprobs,
        generation.stop_reason,
        generation.seed,
        generation.request_digest,
        generation.sampling,
        generation.client_disconnected,
        generation.defect,
    ])
}
