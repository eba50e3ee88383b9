use std::sync::Arc;

use fulgurite_backends::{SamplerInfo, derive_seed};
use fulgurite_renderers::{ContinuationPolicy, Renderer};
use fulgurite_types::{BranchReason, Constraint, Defect, Generation, SamplingParameters, SessionIds};
use serde_json::{Map, Value};

use crate::attempt::attempt_memory::AttemptMemory;
use crate::attempt::attribution::Attribution;
use crate::attempt::budget::{Admission, Allowance, BudgetRequest};
use crate::attempt::joined_session::UnnamedConversation;
use crate::attempt::owner::Owner;
use crate::call::model_call::{ModelCall, Reading};
use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::served_model::SampledModel;
use crate::observe::call_facts::CallFacts;
use crate::observe::telemetry::ModelMetrics;
use crate::placed_prompt::{PlacedDeparture, PlacedPrompt};
use crate::record::recorded_call::{RecordedCall, generation_id};
use crate::record::request_attributes::{place_attributes, recorded_conversation, request_attributes};
use crate::reply::finish_reason::FinishReason;
use crate::requests::call_target::CallMaker;
use crate::requests::model_request::{ModelRequest, Prompt};
use crate::retries::logged_requests::LoggedRequest;
use crate::state::planning_rules::PlanningRules;

/// How many tokens a host may send together for an answer that is not streamed: reading ten costs little more than reading
/// one, and what is lost when an answer breaks off is sampled again in no time.
const TOKENS_TOGETHER: usize = 16;

/// Makes calls of a request.
pub(crate) struct Planner<'p> {
    pub(crate) rules: &'p PlanningRules,
    pub(crate) attribution: Option<Attribution>,
    /// Of a call that named no rollout.
    pub(crate) unnamed: Option<UnnamedConversation>,
    /// Of the attempt, if it belongs to one.
    pub(crate) memory: Option<Arc<AttemptMemory>>,
    pub(crate) request: &'p ModelRequest,
    pub(crate) model: &'p SampledModel,
    pub(crate) gate: &'p Gate,
    pub(crate) info: &'p SamplerInfo,
    pub(crate) metrics: &'p ModelMetrics,
    pub(crate) facts: &'p CallFacts,
    /// Whether the client allows the answers to be trained.
    pub(crate) maker: CallMaker,
    pub(crate) trainable: Option<bool>,
}

/// What the answers to a request have in common.
struct PromptPlan {
    tokens: Vec<u32>,
    branch_reason: Option<BranchReason>,
    /// Attributes of the span that describe how the prompt continues earlier calls.
    place: Map<String, Value>,
    /// Of the first answer.
    seed: u64,
}

impl PromptPlan {
    /// What was sampled is only worth anything after the very prompt that it was sampled from.
    fn of_recorded(RecordedCall { generation, place, .. }: &RecordedCall) -> Self {
        Self {
            tokens: generation.prompt_tokens.clone(),
            branch_reason: generation.branch_reason.clone(),
            place: place.clone(),
            seed: generation.seed,
        }
    }
}

/// The calls for a request's answers.
pub(crate) struct Plan {
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) calls: Vec<ModelCall>,
}

impl Planner<'_> {
    /// A call for each of the answers that a request asks for. `earlier` is what was sampled for them before; else `placed`
    /// is their prompt.
    pub(crate) fn plan(
        self,
        logged: &LoggedRequest,
        mut earlier: Vec<Option<RecordedCall>>,
        placed: Option<PlacedPrompt>,
    ) -> Result<Plan, ProxyError> {
        let defect = self.defect();
        let PromptPlan { tokens, branch_reason, place, seed } = match earlier.iter().flatten().next() {
            Some(recorded) => PromptPlan::of_recorded(recorded),
            None => {
                self.metrics.auxiliary.increment(defect.is_some().into());
                self.new_prompt(placed.ok_or_else(ProxyError::broken_off)?, &logged.reply_id)
            }
        };
        self.check(&tokens)?;
        let sampling =
            SamplingParameters { constraint: self.constraint(&tokens)?, ..self.request.options.sampling.clone() };
        let is_new = earlier.iter().all(Option::is_none);
        let room = self.info.context_length - tokens.len();
        let answer_tokens = self.request.options.max_tokens.unwrap_or(room).min(room);
        let admission = match is_new {
            true => self.admit(tokens.len(), answer_tokens)?,
            false => self.readmit(&earlier, answer_tokens),
        };
        let prompt: Arc<[u32]> = tokens.into();
        let reading = self.reading();
        let options = &self.request.options;
        let to_sample = admission.as_ref().and_then(|admission| admission.answer_tokens).unwrap_or(answer_tokens);
        earlier.resize_with(options.choices, || None);
        // A session that exists already is continued.
        let owner = Arc::new(Owner::new(self.attribution.clone(), recorded_owner(&earlier), options.choices));
        let unseen_tools = self.request.unseen_tools(&*self.model.renderer);
        let calls = earlier.into_iter().enumerate().map(|(choice, earlier)| ModelCall {
            owner: Arc::clone(&owner),
            unnamed: self.unnamed.clone(),
            memory: self.memory.clone(),
            admission: admission.clone(),
            max_tokens: to_sample.saturating_add(sampled_before(earlier.as_ref())).min(answer_tokens),
            earlier: earlier.map(|call| call.generation),
            model: self.model.clone(),
            gate: self.gate.clone(),
            generation_id: generation_id(&logged.reply_id, choice),
            prompt: Arc::clone(&prompt),
            sampling: sampling.clone(),
            single_call: self.ends_behind_a_call(),
            top_logprobs: options.top_logprobs,
            stream_interval: self.stream_interval(),
            stop_strings: options.stop_strings.clone(),
            reading: reading.clone(),
            branch_reason: branch_reason.clone(),
            defect: defect.clone(),
            seed: if choice == 0 { seed } else { derive_seed(seed, &["choice", &choice.to_string()]) },
            request_digest: self.request.digest.clone(),
            clock: self.facts.sampling_clock(),
            endpoint: self.request.endpoint,
            conversation: recorded_conversation(self.request),
            attributes: self.attributes(logged, &place, choice, unseen_tools),
        });
        let calls = calls.collect();
        Ok(Plan { prompt, calls })
    }

    /// Attributes of an answer's span that come from the request.
    fn attributes(
        &self,
        logged: &LoggedRequest,
        place: &Map<String, Value>,
        choice: usize,
        unseen_tools: usize,
    ) -> Map<String, Value> {
        let key = logged.idempotency_key();
        let mut attributes = request_attributes(self.request, key, place, choice, unseen_tools);
        attributes.extend(self.facts.replaced_attribute());
        attributes
    }

    /// How answers are read.
    fn reading(&self) -> Reading {
        match &self.request.prompt {
            Prompt::Messages(conversation) => Reading::Message(Arc::clone(conversation)),
            Prompt::Text { .. } | Prompt::Tokens(_) => Reading::Text,
        }
    }

    /// The prompt of answers of which nothing was sampled before.
    fn new_prompt(&self, mut placed: PlacedPrompt, reply_id: &str) -> PromptPlan {
        if let Some(left) = placed.departure.as_mut().filter(|_| self.is_apart_from_tools()) {
            left.mark_next_to_tools();
        }
        self.metrics.prompt_was_placed(&placed);
        let branch_reason = placed.departure.as_ref().map(|left| BranchReason::Departure(left.departure.reason));
        let (place, seed) = (place_attributes(&placed), self.seed(reply_id));
        PromptPlan { branch_reason, place, tokens: placed.tokens, seed }
    }

    /// Whether the model is shown no tools, though an earlier call of the attempt showed it some. A call that its client
    /// wants to be trained never stands beside another.
    fn is_apart_from_tools(&self) -> bool {
        let shows_none = match &self.request.prompt {
            Prompt::Messages(conversation) => conversation.tools.is_empty(),
            Prompt::Text { .. } | Prompt::Tokens(_) => false,
        };
        let has_shown = self.memory.as_ref().is_some_and(|memory| memory.has_shown_tools());
        shows_none && has_shown && self.trainable != Some(true)
    }

    /// What the answers are kept to while they are sampled.
    fn constraint(&self, prompt: &[u32]) -> Result<Option<Constraint>, ProxyError> {
        let tools: &[Value] = match &self.request.prompt {
            Prompt::Messages(conversation) => &conversation.tools,
            Prompt::Text { .. } | Prompt::Tokens(_) => &[],
        };
        let (renderer, capabilities) = (&*self.model.renderer, &self.info.capabilities);
        let schema_bytes = self.rules.schema_bytes;
        self.request.options.form.constraint(renderer, capabilities, prompt, tools, schema_bytes)
    }

    /// Whether an answer ends behind its first call. Nothing is masked for this: what is sampled is the model's own.
    fn ends_behind_a_call(&self) -> bool {
        self.request.options.form.single_call.is_some() && self.model.renderer.response_format().may_end_behind_a_call()
    }

    /// How many tokens the host may send together: one where a client streams, or where the text may end the answer, which
    /// the host does not know; else some, which costs less. When an answer breaks off, as many as that may be lost, and are
    /// sampled again.
    fn stream_interval(&self) -> usize {
        let is_watched = self.request.stream
            || !self.request.options.stop_strings.is_empty()
            || self.ends_behind_a_call()
            || self.model.renderer.stop_string().is_some();
        // A host that takes a second for each must not seem silent.
        let patience = self.rules.silence.as_secs();
        if is_watched { 1 } else { usize::try_from(patience).unwrap_or(usize::MAX).clamp(1, TOKENS_TOGETHER) }
    }

    /// Why the answers must not be trained, if the call is an auxiliary one: by its maker, by the client's header, or else by the rules.
    fn defect(&self) -> Option<Defect> {
        match (self.maker, self.trainable, &self.request.prompt) {
            (CallMaker::Grader, _, _) => Some(Defect::auxiliary_by_grader()),
            (CallMaker::Agent, Some(true), _) => None,
            (CallMaker::Agent, Some(false), _) => Some(Defect::auxiliary_by_client()),
            (CallMaker::Agent, None, Prompt::Messages(conversation)) => {
                let rule = self.rules.auxiliary.recognise(&conversation.messages, &conversation.tools)?;
                Some(Defect::auxiliary_by_rule(rule))
            }
            (CallMaker::Agent, None, Prompt::Text { .. } | Prompt::Tokens(_)) => None,
        }
    }

    /// Refuses a prompt that the model does not know or that leaves no room for an answer.
    fn check(&self, prompt: &[u32]) -> Result<(), ProxyError> {
        let SamplerInfo { context_length, vocabulary_size, .. } = *self.info;
        let field = self.request.endpoint.prompt_field;
        if let Some(unknown) = prompt.iter().find(|token| **token as usize >= vocabulary_size) {
            let message = format!("{field}: there is no token {unknown}; ids are below {vocabulary_size}");
            return Err(ProxyError::invalid(field, message));
        }
        if prompt.len() >= context_length {
            return Err(ProxyError::PromptTooLong { parameter: field, prompt_tokens: prompt.len(), context_length });
        }
        Ok(())
    }

    /// What the call takes from, if it takes from an attempt's budget.
    fn allowance(&self) -> Option<Allowance> {
        self.attribution.as_ref()?.allowance
    }

    /// Lets a new request of an attempt take from its budget.
    fn admit(&self, prompt_tokens: usize, answer_tokens: usize) -> Result<Option<Arc<Admission>>, ProxyError> {
        let (Some(allowance), Some(memory)) = (self.allowance(), &self.memory) else { return Ok(None) };
        let (choices, prompt_field) = (self.request.options.choices, self.request.endpoint.prompt_field);
        let budget_request = BudgetRequest { prompt_tokens, choices, answer_tokens, prompt_field };
        Ok(Some(Arc::new(memory.spending.admit(allowance, budget_request)?)))
    }

    /// Lets a request of an attempt that was broken off take what its answers may still sample.
    fn readmit(&self, earlier: &[Option<RecordedCall>], answer_tokens: usize) -> Option<Arc<Admission>> {
        let (allowance, memory) = (self.allowance()?, self.memory.as_ref()?);
        let is_whole = |call: &RecordedCall| FinishReason::recorded(&call.generation.stop_reason).is_some();
        let broken_off = earlier.iter().map(Option::as_ref).filter(|call| !call.is_some_and(is_whole));
        let more: Vec<usize> = broken_off.map(|call| answer_tokens.saturating_sub(sampled_before(call))).collect();
        memory.spending.readmit(allowance, &more).map(Arc::new)
    }

    /// The seed of a new request's first answer.
    fn seed(&self, reply_id: &str) -> u64 {
        match (&self.attribution, &self.memory) {
            (Some(attribution), Some(memory)) => {
                // A client's own seed is one more part: a group whose agents all send the same still differs.
                let client_seed = self.request.seed.map(|seed| seed.to_string()).unwrap_or_default();
                memory.next_seed(|place| derive_seed(attribution.rollout_seed, &[&place.to_string(), &client_seed]))
            }
            _ => match self.request.seed {
                Some(seed) => seed.cast_unsigned(),
                None => derive_seed(self.rules.seed, &[reply_id]),
            },
        }
    }
}

/// The tokens of a request's prompt: of a conversation that continues an earlier call of its attempt, that call's tokens, and
/// those of the new messages.
pub(crate) fn placed_prompt(
    prompt: &Prompt,
    renderer: &dyn Renderer,
    memory: Option<&AttemptMemory>,
    policy: ContinuationPolicy,
) -> Result<PlacedPrompt, ProxyError> {
    let alone = |tokens: Vec<u32>| {
        // Whether text or tokens continue an earlier call of an attempt is found only when they are recorded.
        let begins = memory.is_none_or(AttemptMemory::is_unused);
        let departure = begins.then(PlacedDeparture::first_turn);
        PlacedPrompt { tokens, tokens_kept: 0, continues: None, departure }
    };
    Ok(match (prompt, memory) {
        (Prompt::Messages(conversation), Some(memory)) => {
            memory.next_prompt(renderer, &conversation.messages, &conversation.tools, policy)?
        }
        (Prompt::Messages(conversation), None) => {
            alone(renderer.render_prompt(&conversation.messages, &conversation.tools)?.tokens)
        }
        (Prompt::Text { text, special_tokens }, _) => alone(renderer.tokenizer().encode_prompt(text, *special_tokens)?),
        (Prompt::Tokens(tokens), _) => alone(tokens.clone()),
    })
}

/// How many tokens are recorded of an answer.
fn sampled_before(earlier: Option<&RecordedCall>) -> usize {
    earlier.map_or(0, |call| call.generation.sampled_tokens.len())
}

/// Rollout and attempt of what was recorded.
fn recorded_owner(earlier: &[Option<RecordedCall>]) -> Option<SessionIds> {
    let Generation { rollout_id, attempt_id, .. } = &earlier.iter().flatten().next()?.generation;
    Some(SessionIds { rollout_id: rollout_id.clone(), attempt_id: attempt_id.clone() })
}
