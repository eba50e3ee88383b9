use fulgurite_store::model::{Generation, Object, RecordedReward, WeightsFrom};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rewards::CountedRewards;
use crate::{AdapterError, UntrainedCause, exclusion};

/// One model call and what it earned. Where Agent-lightning's triplets have the same thing, it has the same place; see
/// [`Triplet::to_agent_lightning`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Triplet {
    /// What the model read.
    pub prompt: TripletPrompt,
    /// What it sampled.
    pub response: TripletResponse,
    /// What the call earned; `None` if nobody said.
    pub reward: Option<f64>,
    /// Every named number of that reward, the one that counts first.
    pub reward_components: Vec<(String, f64)>,
    /// Where it comes from.
    pub metadata: TripletMetadata,
}

/// What the model read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TripletPrompt {
    /// The whole prompt; empty if nobody recorded it.
    pub token_ids: Vec<u32>,
    /// The messages, as they were recorded; null if they were not.
    pub raw_content: Value,
    /// The URLs of the images in the messages.
    pub image_urls: Vec<String>,
}

/// What the model sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TripletResponse {
    /// The sampled tokens; empty if nobody recorded them.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// What was asked of the model besides the messages; null if not recorded.
    pub request: Value,
    /// What was answered besides the choices; null if not recorded.
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
    pub branch_reason: Option<String>,
    /// The model, as the client named it.
    pub model: String,
    /// Why sampling ended.
    pub stop_reason: String,
    /// Which weights sampled which tokens.
    pub weights_versions: Vec<WeightsFrom>,
    /// Sampling parameters.
    pub sampling: Value,
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

/// The triplets of one attempt, in the order in which its calls were recorded.
///
/// A reward for one generation is its triplet's; the reward of the attempt as a whole goes to the last call, on top of
/// its own. Of several rewards for the same thing the last one counts. So, if there is a call at all, the triplets'
/// rewards sum to what the attempt earned.
///
/// # Errors
/// [`AdapterError::UnknownGeneration`] if a reward is linked to a generation that is not given.
pub fn triplets(generations: &[Generation], rewards: &[RecordedReward]) -> Result<Vec<Triplet>, AdapterError> {
    let mut rewards = CountedRewards::new(rewards);
    let mut in_order: Vec<&Generation> = generations.iter().collect();
    in_order.sort_by_key(|generation| generation.sequence_id);
    let mut triplets: Vec<Triplet> = in_order
        .into_iter()
        .map(|generation| triplet(generation, rewards.of_generations.remove(generation.generation_id.as_str())))
        .collect();
    if let Some((generation_id, _)) = rewards.of_generations.first_key_value() {
        return Err(AdapterError::UnknownGeneration { generation_id: (*generation_id).to_owned() });
    }
    if let (Some(last), Some(reward)) = (triplets.last_mut(), rewards.of_attempt) {
        last.reward = Some(last.reward.unwrap_or(0.0) + reward);
    }
    Ok(triplets)
}

fn triplet(generation: &Generation, reward: Option<f64>) -> Triplet {
    let mut triplet = Triplet {
        reward,
        metadata: TripletMetadata {
            response_id: Some(generation.generation_id.clone()),
            rollout_id: generation.rollout_id.clone(),
            attempt_id: generation.attempt_id.clone(),
            span_id: generation.span_id.clone(),
            sequence_id: generation.sequence_id,
            ..TripletMetadata::default()
        },
        ..Triplet::default()
    };
    triplet.take_generation(generation);
    triplet
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::recorded::{generation, reward};

    fn calls() -> Vec<Generation> {
        vec![
            Generation { sequence_id: 1, ..generation("a", &[1], &[2]) },
            Generation { sequence_id: 3, ..generation("c", &[1, 2, 3, 4, 5], &[6]) },
            Generation { sequence_id: 2, ..generation("b", &[1, 2, 3], &[4]) },
        ]
    }

    fn rewards_of(rewards: &[RecordedReward]) -> Vec<Option<f64>> {
        triplets(&calls(), rewards).unwrap().into_iter().map(|triplet| triplet.reward).collect()
    }

    #[test]
    fn the_rollouts_reward_goes_to_the_last_call() {
        assert_eq!(rewards_of(&[reward(9, None, 1.0)]), [None, None, Some(1.0)]);
        assert_eq!(rewards_of(&[]), [None, None, None]);
    }

    #[test]
    fn a_linked_reward_goes_to_its_call_and_the_sum_is_what_was_earned() {
        assert_eq!(
            rewards_of(&[reward(9, Some("b"), 0.5), reward(10, None, 1.0), reward(11, Some("c"), 0.25)]),
            [None, Some(0.5), Some(1.25)]
        );
    }

    #[test]
    fn a_reward_for_nobody_is_an_error() {
        assert_eq!(
            triplets(&calls(), &[reward(9, Some("z"), 0.5)]),
            Err(AdapterError::UnknownGeneration { generation_id: "z".into() })
        );
    }

    #[test]
    fn tokens_stand_where_agent_lightnings_readers_look() {
        let mut generation = generation("a", &[1, 2], &[3]);
        generation.logprobs = None;
        let triplets = triplets(&[generation], &[reward(9, None, 0.5)]).unwrap();
        let json = serde_json::to_value(&triplets[0]).unwrap();
        assert_eq!(json["prompt"]["token_ids"], json!([1, 2]));
        assert_eq!(json["response"], json!({"token_ids": [3], "logprobs": null, "raw_content": null}));
        assert_eq!(json["reward"], json!(0.5));
        assert_eq!(json["metadata"]["response_id"], json!("a"));
        assert_eq!(json["metadata"]["exclusion"], json!("no_logprobs"));
    }
}
