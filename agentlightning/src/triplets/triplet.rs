use fulgurite_adapters::exclusion;
use fulgurite_types::{BranchReason, Generation, Object, RecordedSampling, StopReason, UntrainedCause, WeightsFrom};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One model call and what it earned. Where Agent-lightning's triplets have the same thing, it has the same place; see
/// [`Triplet::to_agent_lightning`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Triplet {
    /// What the model read.
    pub prompt: TripletPrompt,
    /// What it sampled.
    pub response: TripletResponse,
    /// What the call earned; `None` if not recorded.
    pub reward: Option<f64>,
    /// Every named number of that reward, the one that counts first.
    pub reward_components: Vec<(String, f64)>,
    /// Where it comes from.
    pub metadata: TripletMetadata,
}

/// What the model read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TripletPrompt {
    /// The whole prompt; empty if not recorded.
    pub token_ids: Vec<u32>,
    /// The messages, as they were recorded; null if they were not.
    pub raw_content: Value,
    /// The URLs of the images in the messages.
    pub image_urls: Vec<String>,
}

/// What the model sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TripletResponse {
    /// The sampled tokens; empty if not recorded.
    pub token_ids: Vec<u32>,
    /// The sampler's logprob of each; `None` if it gave none, or not one finite number for each.
    pub logprobs: Option<Vec<f32>>,
    /// The choices or messages, as they were recorded; null if they were not.
    pub raw_content: Value,
    /// The logprobs as a tracer wrote them, with each token's text and alternatives; `None` if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs_content: Option<Value>,
}

/// Where a triplet comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TripletMetadata {
    /// The id of the response that the client saw.
    pub response_id: Option<String>,
    /// The agent that made the call; `*` if none is named.
    pub agent_name: Option<String>,
    /// Its rollout.
    pub rollout_id: String,
    /// Its attempt.
    pub attempt_id: String,
    /// The span that the tokens are from.
    pub span_id: String,
    /// The span's place in its rollout.
    pub sequence_id: u64,
    /// The request besides the messages; null if not recorded.
    pub request: Value,
    /// The response besides the choices; null if not recorded.
    pub response: Value,
    /// What is known of a call that went through this program's proxy.
    #[serde(flatten)]
    pub generation: Option<GenerationFacts>,
}

/// What the store knows of a generation besides its tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerationFacts {
    /// The generation of the same attempt that the prompt continues token by token.
    pub parent_id: Option<String>,
    /// Why it does not continue the conversation's previous generation, if it does not.
    pub branch_reason: Option<BranchReason>,
    /// The model, as the client named it.
    pub model: String,
    /// Why sampling ended.
    pub stop_reason: StopReason,
    /// Which weights sampled which tokens.
    pub weights_versions: Vec<WeightsFrom>,
    /// Sampling parameters.
    pub sampling: RecordedSampling,
    /// Name of the renderer that made the prompt.
    pub renderer: String,
    /// Fingerprint of the tokenizer.
    pub tokenizer: String,
    /// Why it must not be trained, if it must not.
    pub exclusion: Option<UntrainedCause>,
}

impl Triplet {
    /// Whether prompt and answer are known token by token.
    pub fn has_tokens(&self) -> bool {
        !self.prompt.token_ids.is_empty() && !self.response.token_ids.is_empty()
    }

    /// The triplet as Agent-lightning 0.3's tracer adapter writes it: no more and no fewer keys.
    pub fn to_agent_lightning(&self) -> Value {
        let mut response = Object::new();
        response.insert("token_ids".into(), json!(self.response.token_ids));
        response.insert("raw_content".into(), self.response.raw_content.clone());
        if let Some(content) = &self.response.logprobs_content {
            response.insert("logprobs".into(), content.clone());
        }
        json!({
            "prompt": self.prompt,
            "response": response,
            "reward": self.reward,
            "metadata": {
                "request": self.metadata.request,
                "response": self.metadata.response,
                "response_id": self.metadata.response_id,
                "agent_name": self.metadata.agent_name,
            },
        })
    }

    /// Takes over what the store recorded of the same call: tokens and logprobs to the bit, and whether they may be
    /// trained.
    pub(crate) fn take_generation(&mut self, generation: &Generation) {
        self.prompt.token_ids.clone_from(&generation.prompt_tokens);
        self.response.token_ids.clone_from(&generation.sampled_tokens);
        self.response.logprobs.clone_from(&generation.logprobs);
        self.metadata.generation = Some(GenerationFacts {
            parent_id: generation.parent_id.clone(),
            branch_reason: generation.branch_reason.clone(),
            model: generation.model.clone(),
            stop_reason: generation.stop_reason.clone(),
            weights_versions: generation.weights_versions.clone(),
            sampling: generation.sampling.clone(),
            renderer: generation.renderer.clone(),
            tokenizer: generation.tokenizer.clone(),
            exclusion: exclusion(generation),
        });
    }
}
