use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fulgurite_backends::Constraint;
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie};

use crate::{EngineError, Vocabulary};

/// Grammars that are kept compiled: clients send the same few with every request.
const KEPT: usize = 64;

/// Compiles constraints for one model's vocabulary.
pub(crate) struct Grammars {
    words: Vec<Vec<u8>>,
    /// Made when it is first needed: of a large vocabulary it takes a moment.
    factory: OnceLock<Result<ParserFactory, String>>,
    /// By their text, the last used at the end. None of them has read a token.
    compiled: Mutex<VecDeque<(String, Matcher)>>,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Grammars").field("vocabulary_size", &self.words.len()).finish_non_exhaustive()
    }
}

impl Grammars {
    pub(crate) fn new(vocabulary: &Vocabulary, vocabulary_size: usize) -> Self {
        Self {
            words: vocabulary.words(vocabulary_size),
            factory: OnceLock::new(),
            compiled: Mutex::new(VecDeque::new()),
        }
    }

    /// The grammar of an answer that begins. May take long; a constraint that cannot be compiled is told with the
    /// compiler's own words.
    pub(crate) fn begin(&self, constraint: &Constraint) -> Result<Grammar, EngineError> {
        let key = match constraint {
            Constraint::JsonSchema(schema) => schema.to_string(),
            Constraint::Lark(grammar) => format!("lark: {grammar}"),
        };
        let matcher = match self.kept(&key) {
            Some(matcher) => matcher,
            None => {
                let matcher = self.compile(constraint).map_err(EngineError::constraint)?;
                // What one answer makes of the lexer's states is not shared with others: the limits that keep a
                // grammar from becoming too complex then depend on the answer alone.
                let copy = matcher.deep_clone();
                self.keep(key, matcher);
                copy
            }
        };
        Ok(Grammar { matcher, end: self.words.len() as u32 })
    }

    fn kept(&self, key: &str) -> Option<Matcher> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let place = compiled.iter().position(|(kept, _)| kept == key)?;
        let entry = compiled.remove(place)?;
        let matcher = entry.1.deep_clone();
        compiled.push_back(entry);
        Some(matcher)
    }

    fn keep(&self, key: String, matcher: Matcher) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() == KEPT {
            compiled.pop_front();
        }
        compiled.push_back((key, matcher));
    }

    fn compile(&self, constraint: &Constraint) -> Result<Matcher, String> {
        let factory = self.factory.get_or_init(|| factory(&self.words).map_err(|error| error.to_string())).as_ref()?;
        let grammar = match constraint {
            Constraint::JsonSchema(schema) => TopLevelGrammar::from_json_schema(schema.clone()),
            Constraint::Lark(grammar) => TopLevelGrammar::from_lark(grammar.clone()),
        };
        let parser = factory.create_parser(grammar).map_err(|error| without_excerpt(&format!("{error:#}")))?;
        Ok(Matcher::new(Ok(parser)))
    }
}

/// The vocabulary has one token more than the model: the end of a text that is complete, which stands for the stop
/// tokens that each request has of its own.
fn factory(words: &[Vec<u8>]) -> Result<ParserFactory, Box<dyn std::error::Error + Send + Sync>> {
    let end = words.len() as u32;
    let words = [words, &[Vec::new()]].concat();
    let trie = TokTrie::from(&TokRxInfo::new(end + 1, end), &words);
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let slices = llguidance::earley::SlicedBiasComputer::general_slices();
    let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)?;
    factory.quiet();
    // Errors go to the client: what has been sampled so far is nothing that it needs to be told.
    factory.limits_mut().verbose_errors = false;
    Ok(factory)
}

/// How far an answer has got in its grammar.
pub(crate) struct Grammar {
    matcher: Matcher,
    /// The token that stands for the end.
    end: u32,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Grammar").field("is_over", &self.matcher.is_stopped()).finish_non_exhaustive()
    }
}

impl Grammar {
    /// Takes from `logits`, whose token cannot come next, all likelihood. Where the text may end, `stop_tokens` can.
    pub(crate) fn mask(&mut self, logits: &mut [f32], stop_tokens: &[u32]) -> Result<(), EngineError> {
        let mut allowed: SimpleVob = self.matcher.compute_mask_or_eos().map_err(too_complex)?;
        if allowed.is_allowed(self.end) {
            let known = stop_tokens.iter().filter(|token| **token < self.end);
            known.for_each(|token| allowed.allow_token(*token));
        }
        allowed.iter_unset_entries(|token| {
            if let Some(logit) = logits.get_mut(token) {
                *logit = f32::NEG_INFINITY;
            }
        });
        Ok(())
    }

    /// Goes on behind a token that the mask had left.
    pub(crate) fn read(&mut self, token: u32) -> Result<(), EngineError> {
        self.matcher.consume_token(token).map_err(too_complex)
    }
}

/// The compiler's words without the lines of the grammar that it quotes: clients send schemas, not grammars.
fn without_excerpt(message: &str) -> String {
    let is_quoted =
        |line: &&str| line.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit()).starts_with(" | ");
    message.lines().take_while(|line| !is_quoted(line)).collect::<Vec<_>>().join("\n")
}

/// The grammar's limits are all that a token which the mask had left can fail at.
fn too_complex(error: impl std::fmt::Display) -> EngineError {
    let message = error.to_string();
    EngineError::constraint(message.lines().next().unwrap_or_default().to_owned())
}
