use std::sync::Arc;

use fulgurite_backends::UpstreamRequest;
use serde_json::{Map, Value};

use super::route::Route;
use crate::attempt::attempt_memory::AttemptMemory;
use crate::attempt::budget::{Admission, Allowance, BudgetRequest, Spending};
use crate::attempt::joined_session::UnnamedConversation;
use crate::attempt::owner::Owner;
use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::served_model::UpstreamModel;
use crate::observe::call_facts::CallFacts;
use crate::requests::exact_json::ExactValues;

/// A forwarded call, and all that is recorded of it.
pub(super) struct ForwardedCall {
    pub(super) route: Route,
    pub(super) model: UpstreamModel,
    /// What holds the model's calls.
    pub(super) gate: Gate,
    pub(super) request: UpstreamRequest,
    pub(super) owner: Owner,
    /// Its messages, if it names no rollout and such calls are recognised by content.
    pub(super) unnamed: Option<UnnamedConversation>,
    /// The client's body.
    pub(super) fields: Map<String, Value>,
    /// What `fields` rounds.
    pub(super) exact: ExactValues,
    pub(super) digest: String,
    pub(super) idempotency_key: Option<String>,
    /// What lets it take from its attempt's budget, if it takes from one.
    pub(super) admission: Option<Admitted>,
    pub(super) facts: Arc<CallFacts>,
    /// Seconds since the epoch.
    pub(super) start_time: f64,
}

/// A call that was let in by its attempt's budget before anybody could count its prompt.
pub(super) struct Admitted {
    admission: Admission,
    spending: Arc<Spending>,
}

impl Admitted {
    /// A prompt is taken to have this many tokens until the upstream has counted it.
    const PROMPT_TOKENS: usize = 1;

    /// Lets a call take from an attempt's budget, unless that is spent.
    pub(super) fn of(
        memory: &AttemptMemory,
        allowance: Allowance,
        route: Route,
        fields: &Map<String, Value>,
    ) -> Result<Self, ProxyError> {
        let budget_request = BudgetRequest {
            prompt_tokens: Self::PROMPT_TOKENS,
            choices: 1,
            answer_tokens: requested_tokens(fields),
            prompt_field: route.prompt_field(),
        };
        let spending = Arc::clone(&memory.spending);
        Ok(Self { admission: spending.admit(allowance, budget_request)?, spending })
    }

    /// The call is recorded, with as many tokens as the upstream counts.
    pub(super) fn is_recorded(&self, tokens: u64) {
        self.admission.is_recorded();
        let counted = usize::try_from(tokens).unwrap_or(usize::MAX);
        self.spending.sampled(counted.saturating_sub(Self::PROMPT_TOKENS));
    }
}

/// A request's limit of tokens, in any dialect; none if it has none.
fn requested_tokens(fields: &Map<String, Value>) -> usize {
    let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let requested = limits.iter().find_map(|limit| fields.get(*limit)?.as_u64()).unwrap_or_default();
    usize::try_from(requested).unwrap_or(usize::MAX)
}
