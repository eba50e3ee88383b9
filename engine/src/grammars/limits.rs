use fulgurite_types::Constraint;
use llguidance::api::ParserLimits;

use super::schema_cost::{SchemaCost, schemas_in};
use crate::error::EngineError;

/// What a schema or grammar may take. Whatever goes beyond is refused by the name of the limit.
///
/// They are sizes and counts, not times: the same constraint is taken or refused on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrammarLimits {
    /// Bytes of its text.
    pub bytes: usize,
    /// JSON values in its schemas: each property, keyword and item is one.
    pub values: usize,
    /// What its `multipleOf` and `patternProperties` cost beyond that: for the first, remainders that must be told
    /// apart; for the others, pairs of patterns that are compared.
    pub work: u64,
    /// Steps of the grammar's compiler.
    pub steps: u64,
    /// States that an answer's lexer may have, about 1.5 kB each.
    pub states: usize,
}

impl Default for GrammarLimits {
    fn default() -> Self {
        Self { bytes: 256 * 1024, values: 4096, work: 10_000, steps: 1_000_000, states: 50_000 }
    }
}

impl GrammarLimits {
    /// Refuses a constraint that would take too long to compile: the compiler cannot be interrupted.
    pub(super) fn check(&self, constraint: &Constraint) -> Result<(), EngineError> {
        let (bytes, cost) = match constraint {
            Constraint::JsonSchema(schema) => (schema.to_string().len(), SchemaCost::of([schema])),
            Constraint::Lark(grammar) => (grammar.len(), SchemaCost::of(&schemas_in(grammar))),
        };
        let bounds = [
            ("bytes", bytes as u64, self.bytes as u64, "engine.grammar_bytes"),
            ("JSON values", cost.values, self.values as u64, "engine.grammar_values"),
            ("units of work for multipleOf and patternProperties", cost.work(), self.work, "engine.grammar_work"),
        ];
        match bounds.into_iter().find(|(_, found, limit, _)| found > limit) {
            None => Ok(()),
            Some((what, found, limit, key)) => {
                let message = format!("it has {found} {what}, over the limit of {limit} ({key})");
                Err(EngineError::constraint(message))
            }
        }
    }

    /// As the compiler has them.
    pub(super) fn of_parser(&self) -> ParserLimits {
        ParserLimits {
            initial_lexer_fuel: self.steps,
            max_lexer_states: self.states,
            // Errors go to the client: what has been sampled so far is nothing that it needs to know.
            verbose_errors: false,
            ..ParserLimits::default()
        }
    }

    /// The compiler's words, with the key of the limit that they are about. Where it gave up at a limit of its own, it
    /// tells its own place instead.
    pub(super) fn named(&self, words: String) -> String {
        let lower = words.to_lowercase();
        if lower.starts_with("panic") {
            return "it is too large for the compiler of grammars".to_owned();
        }
        if lower.contains("fuel") || lower.contains("too big") {
            return format!("{words}: it takes more than {} steps to compile (engine.grammar_steps)", self.steps);
        }
        words
    }
}
