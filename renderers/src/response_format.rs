/// How a model family writes what it says: reasoning, text and tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Text and nothing else.
    Text,
    /// Text that `\n\nUser:` ends.
    RoleColon,
    /// Qwen3 and Hermes: `<think>`, and calls as JSON in `<tool_call>`.
    QwenJson,
    /// Qwen3.5, Qwen3.8 and Nemotron 3: `<think>`, and calls as `<function=NAME>` with `<parameter=KEY>`, or as JSON.
    QwenXml,
    /// GLM: `<think>`, and calls as `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>` in `<tool_call>`, or as JSON.
    Glm,
    /// DeepSeek: `<think>`, and a section of calls, as JSON behind the name (V3.1) or in a fence of Markdown (before).
    DeepSeek,
    /// DeepSeek V4.1: `<think>`, and a section of calls as elements of its markup, `<｜DSML｜ invoke name="NAME">`.
    Dsml,
    /// Kimi K2: `<think>`, and a section of calls with ids.
    Kimi,
    /// Harmony of gpt-oss: channels and recipients.
    Harmony,
    /// Llama 3.1: calls are the whole message, as JSON with `name` and `parameters`, a `;` between them.
    LlamaJson,
    /// Mistral: calls behind `[TOOL_CALLS]`, as a JSON list or as `NAME[ARGS]JSON`; reasoning in `[THINK]`.
    Mistral,
    /// Phi-4: calls as a JSON list behind `<|tool_call|>` or `functools`.
    Phi,
    /// FunctionGemma and Gemma 4: `call:NAME{...}` between marks, text between quotes of their own.
    Gemma,
}

impl ResponseFormat {
    /// Whether a turn may end behind any of its calls. It may not where calls stand in a section, which would stay open.
    pub fn may_end_behind_a_call(self) -> bool {
        !matches!(self, Self::DeepSeek | Self::Dsml | Self::Kimi)
    }
}
