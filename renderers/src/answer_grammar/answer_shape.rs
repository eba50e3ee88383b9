use serde_json::Value;

/// What an answer is to be, whatever reasoning precedes it.
#[derive(Clone, Copy, Debug)]
pub enum AnswerShape<'r> {
    /// JSON text that meets the schema, or calls of the tools if there are any.
    Json {
        /// The schema.
        schema: &'r Value,
        /// OpenAI declarations of the tools that may be called instead.
        tools: &'r [Value],
    },
    /// Calls and nothing else.
    Calls {
        /// OpenAI declarations of the tools that may be called; at least one.
        tools: &'r [Value],
        /// Whether there is one call and no more.
        single: bool,
    },
}

/// What an answer is kept to.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerGrammar {
    /// JSON text that meets this schema, from the first token to the last.
    JsonSchema(Value),
    /// What this grammar derives.
    Lark {
        /// The grammar.
        grammar: String,
        /// A schema that the whole answer meets if the model does not reason, which it need not: for hosts that know no
        /// grammars.
        without_reasoning: Option<Value>,
    },
}
