use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use fulgurite_backends::{BackendError, FairShare, ShareFull, ShareLimits};
use fulgurite_types::{Constraint, exact_json};
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::Value;
use tokio::sync::oneshot;
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use super::answer_state::Grammar;
use super::limits::GrammarLimits;
use crate::error::EngineError;
use crate::grammars::vocabulary::Vocabulary;

/// Grammars that are kept compiled: clients send the same few with every request.
const CACHED_GRAMMARS: usize = 64;

/// Stack of a thread that compiles, in bytes: the compiler calls itself for each property of an object, and for each
/// reference of a chain. What is not used of it takes no memory.
const STACK: usize = 256 << 20;

/// How many grammars are compiled together, and how many may wait.
const SHARE: ShareLimits = ShareLimits { places: 2, waiting_of_owner: 64, waiting: 1024 };

/// Compiles constraints for one model's vocabulary.
pub(crate) struct Grammars {
    words: Vec<Vec<u8>>,
    /// Made when it is first needed: of a large vocabulary it takes a moment.
    factory: OnceLock<Result<ParserFactory, String>>,
    /// By their text, the last used at the end. None of them has read a token.
    compiled: Mutex<VecDeque<(String, Matcher)>>,
    limits: GrammarLimits,
    share: FairShare,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Grammars").field("vocabulary_size", &self.words.len()).finish_non_exhaustive()
    }
}

impl Grammars {
    pub(crate) fn new(vocabulary: &Vocabulary, vocabulary_size: usize, limits: GrammarLimits) -> Self {
        Self {
            words: vocabulary.grammar_tokens(vocabulary_size),
            factory: OnceLock::new(),
            compiled: Mutex::new(VecDeque::new()),
            limits,
            share: FairShare::new(SHARE),
        }
    }

    /// The grammar of an answer that begins, compiled aside on a thread of its own; those of one `owner` wait for each
    /// other. A constraint that cannot be compiled is reported with the compiler's own words.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        constraint: Constraint,
        owner: Option<&str>,
    ) -> Result<Grammar, BackendError> {
        let full = |full: ShareFull| BackendError::Overloaded { limit: full.waiting };
        let place = self.share.enter(owner.unwrap_or_default()).await.map_err(full)?;
        let (sender, receiver) = oneshot::channel();
        let grammars = Arc::clone(self);
        let compile = move || {
            // Others wait until it has ended, whether or not anybody still wants to know.
            let _place = place;
            if !sender.is_closed() {
                drop(sender.send(grammars.grammar(&constraint)));
            }
        };
        let thread = thread::Builder::new().name("fulgurite-grammar".into()).stack_size(STACK);
        thread.spawn(compile).map_err(EngineError::io("start", "a thread that compiles grammars"))?;
        let broken = |_| EngineError::Panicked { message: "the compiler of grammars".to_owned() };
        Ok(receiver.await.map_err(broken)??)
    }

    fn grammar(&self, constraint: &Constraint) -> Result<Grammar, EngineError> {
        self.limits.check(constraint)?;
        let key = match constraint {
            Constraint::JsonSchema(schema) => schema.to_string(),
            Constraint::Lark(grammar) => format!("lark: {grammar}"),
        };
        let matcher = match self.cached(&key) {
            Some(matcher) => matcher,
            None => {
                let compiled = self.compile(constraint);
                let matcher = compiled.map_err(|words| EngineError::constraint(self.limits.named(words)))?;
                // What one answer makes of the lexer's states is not shared with others: the limits that keep a
                // grammar from becoming too complex then depend on the answer alone.
                let copy = matcher.deep_clone();
                self.keep(key, matcher);
                copy
            }
        };
        Ok(Grammar { matcher, end: self.words.len() as u32 })
    }

    fn cached(&self, key: &str) -> Option<Matcher> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let place = compiled.iter().position(|(kept, _)| kept == key)?;
        let entry = compiled.remove(place)?;
        let matcher = entry.1.deep_clone();
        compiled.push_back(entry);
        Some(matcher)
    }

    fn keep(&self, key: String, matcher: Matcher) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() == CACHED_GRAMMARS {
            compiled.pop_front();
        }
        compiled.push_back((key, matcher));
    }

    fn compile(&self, constraint: &Constraint) -> Result<Matcher, String> {
        let factory = self.factory.get_or_init(|| factory(&self.words, self.limits).map_err(|error| error.to_string()));
        let factory = factory.as_ref()?;
        let grammar = match constraint {
            Constraint::JsonSchema(schema) => TopLevelGrammar::from_json_schema(rounded(schema)),
            Constraint::Lark(grammar) => TopLevelGrammar::from_lark(grammar.clone()),
        };
        let parser = factory.create_parser(grammar).map_err(|error| without_excerpt(&format!("{error:#}")))?;
        Ok(Matcher::new(Ok(parser)))
    }
}

/// A schema with its numbers as floats of 64 bits, which the compiler counts in.
fn rounded(schema: &Value) -> Value {
    serde_json::from_str(&exact_json(schema)).unwrap_or_else(|_| schema.clone())
}

/// The vocabulary has one token more than the model: the end of a text that is complete, which stands for the stop
/// tokens that each request has of its own.
fn factory(
    words: &[Vec<u8>],
    limits: GrammarLimits,
) -> Result<ParserFactory, Box<dyn std::error::Error + Send + Sync>> {
    let end = words.len() as u32;
    let words = [words, &[Vec::new()]].concat();
    let trie = TokTrie::from(&TokRxInfo::new(end + 1, end), &words);
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let slices = llguidance::earley::SlicedBiasComputer::general_slices();
    let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)?;
    factory.quiet();
    *factory.limits_mut() = limits.of_parser();
    Ok(factory)
}

/// The compiler's words without the lines of the grammar that it quotes: clients send schemas, not grammars.
fn without_excerpt(message: &str) -> String {
    let is_quoted =
        |line: &&str| line.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit()).starts_with(" | ");
    message.lines().take_while(|line| !is_quoted(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
