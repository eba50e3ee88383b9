//! A model that plays the script, behind the proxy like any other.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use fulgurite_backends::{
    BackendError, Capabilities, SampleEvent, SampleRequest, SampleStream, SampledToken, Sampler, SamplerInfo,
    SamplingEnd,
};
use fulgurite_proxy::SampledModel;
use fulgurite_renderers::{Renderer, open_renderer, train_byte_level_tokenizer, write_tokenizer_directory};
use fulgurite_types::WeightsVersion;

use super::agents::MODEL;
use super::script::{Prompt, Shell, Step};
use super::trial::Trial;

/// The format in which it is told of tools and calls them.
const FORMAT: &str = "qwen3";
/// What that needs of a tokenizer beside ChatML's own.
const TOKENS_OF_FORMAT: [&str; 6] =
    ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];
/// A token is a byte, or not much more, so that prompts are long.
const VOCABULARY_SIZE: usize = 512;
const CONTEXT_LENGTH: usize = 1 << 22;
/// Of every token: nothing is learnt of it.
const LOGPROB: f32 = -0.5;
/// How often the host fails in the trial of that.
const FAILURES: usize = 2;

/// Says what the script has for each prompt.
pub(crate) struct ScriptedModel {
    renderer: Arc<dyn Renderer>,
    ended_by: Option<&'static str>,
    states: Mutex<HashMap<Trial, TrialState>>,
}

/// What came of a trial, as the model sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrialState {
    /// Faults that were made.
    faults: usize,
    /// The tool that ran commands.
    pub(crate) shell: Option<String>,
    /// Whether the last answer was asked for.
    pub(crate) has_ended: bool,
}

/// What is done about a request.
enum Fate {
    Answers,
    BreaksOff,
    Fails,
}

impl ScriptedModel {
    /// A model whose tokenizer is kept in `directory`.
    pub(crate) fn new(directory: &Path, ended_by: Option<&'static str>) -> Result<Arc<Self>> {
        // Texts that prompts are full of, so that a token is a little more than a byte.
        let texts = TOKENS_OF_FORMAT.iter().chain(&["\"description\": \"string\", \"type\": \"object\""]);
        let tokenizer = train_byte_level_tokenizer(texts, VOCABULARY_SIZE, &TOKENS_OF_FORMAT)?;
        write_tokenizer_directory(directory, &tokenizer)?;
        let renderer = open_renderer(directory, FORMAT)?;
        Ok(Arc::new(Self { renderer, ended_by, states: Mutex::default() }))
    }

    /// As agents know it.
    pub(crate) fn served(self: &Arc<Self>) -> SampledModel {
        SampledModel { name: MODEL.to_owned(), renderer: self.renderer.clone(), sampler: self.clone() }
    }

    /// The text of some tokens.
    pub(crate) fn text(&self, tokens: &[u32]) -> String {
        self.renderer.tokenizer().decode(tokens)
    }

    /// What came of a trial so far.
    pub(crate) fn state(&self, trial: Trial) -> TrialState {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(&trial).cloned().unwrap_or_default()
    }

    /// Notes how far a trial has come, and says what becomes of the request.
    fn note(&self, prompt: &Prompt, step: Step, shell: Option<&Shell>) -> Fate {
        let Some(trial) = prompt.trial else { return Fate::Answers };
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.entry(trial).or_default();
        state.shell = shell.map(|shell| shell.name.clone());
        state.has_ended |= step == Step::Last;
        let faults = match trial {
            Trial::BrokenAnswer => 1,
            Trial::ServerError => FAILURES,
            Trial::Plain | Trial::RateLimit | Trial::Budget => 0,
        };
        if step != Step::Second || state.faults == faults {
            return Fate::Answers;
        }
        state.faults += 1;
        if trial == Trial::BrokenAnswer { Fate::BreaksOff } else { Fate::Fails }
    }
}

#[async_trait]
impl Sampler for ScriptedModel {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        let vocabulary_size = self.renderer.tokenizer().vocabulary_size();
        let capabilities = Capabilities { penalties: true, logit_bias: true, ..Capabilities::default() };
        Ok(SamplerInfo { context_length: CONTEXT_LENGTH, vocabulary_size, capabilities })
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        None
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let prompt = Prompt::read(&self.text(&request.prompt));
        let shell = Shell::among(&prompt.tools);
        let step = Step::after(&prompt, shell.as_ref());
        let fate = self.note(&prompt, step, shell.as_ref());
        if matches!(fate, Fate::Fails) {
            return Err(BackendError::Unavailable { message: "the script has it fail".to_owned() });
        }
        let text = step.text(shell.as_ref(), self.ended_by);
        let tokenizer = self.renderer.tokenizer();
        let encoded = tokenizer.encode_with_specials(&text);
        let mut tokens = encoded.map_err(|error| BackendError::Internal { message: error.to_string() })?;
        tokens.extend(request.stop_tokens.first());
        let end = if tokens.len() > request.max_tokens { SamplingEnd::Length } else { SamplingEnd::StopToken };
        tokens.truncate(request.max_tokens);
        if matches!(fate, Fate::BreaksOff) {
            tokens.truncate(tokens.len() / 2);
        }
        let (sender, stream) = SampleStream::channel();
        for id in tokens {
            let token = SampledToken { id, logprob: LOGPROB, weights_version: None, top_logprobs: Vec::new() };
            let _ = sender.send(Ok(SampleEvent::Token(token)));
        }
        // Without it the stream has broken off, once its end that feeds it is gone.
        if !matches!(fate, Fate::BreaksOff) {
            let _ = sender.send(Ok(SampleEvent::Finished(end)));
        }
        Ok(stream)
    }
}
