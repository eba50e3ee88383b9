//! Rewards, stored as Agent-lightning's annotation spans, so that all readers of spans find them.

use std::collections::BTreeMap;

use fulgurite_types::{Object, RecordedReward, Reward, RewardGiver, Span};
use serde_json::{Value, json};

pub(crate) const ANNOTATION: &str = "agentlightning.annotation";
pub(crate) const REWARD: &str = "agentlightning.reward";
/// The attribute that names the giver of a reward. The server alone writes it.
pub(crate) const GIVER: &str = "fulgurite.reward.giver";
/// The attribute that names the event of Agent-lightning that a span holds.
pub const EVENT_TYPE: &str = "agentlightning.event.type";
/// The attribute that holds such an event's data, as JSON text.
pub const EVENT_DATA: &str = "agentlightning.event.data";
/// The attribute of a failed call's event that tells which request it was, as a generation's `request_digest` does.
pub const EVENT_REQUEST_DIGEST: &str = "fulgurite.event.request_digest";
/// The name of a span that holds an event and no reward.
pub const EVENT_SPAN: &str = "agentlightning.event";
const LINK: &str = "agentlightning.link";
/// The attribute by which a reward is linked to the generation that it is for.
const RESPONSE_ID: &str = "gen_ai.response.id";

/// A condition in SQL for spans that reward an attempt as a whole. A reward for one call is linked to it.
pub(crate) const REWARDS_A_WHOLE: &str =
    "name = 'agentlightning.annotation' AND body LIKE '%reward%' AND body NOT LIKE '%\"agentlightning.link.%'";

pub(crate) fn attributes(reward: &Reward, generation_id: Option<&str>, giver: RewardGiver) -> Object {
    let mut attributes = Object::new();
    let primary = std::iter::once((reward.name.as_str(), reward.value));
    let components = reward.components.iter().map(|(name, value)| (name.as_str(), *value));
    for (index, (name, value)) in primary.chain(components).enumerate() {
        attributes.insert(format!("{REWARD}.{index}.name"), json!(name));
        attributes.insert(format!("{REWARD}.{index}.value"), json!(value));
    }
    if let Some(generation_id) = generation_id {
        attributes.insert(format!("{LINK}.0.key_match"), json!(RESPONSE_ID));
        attributes.insert(format!("{LINK}.0.value_match"), json!(generation_id));
    }
    attributes.insert(GIVER.to_owned(), json!(giver));
    attributes
}

/// The reward that a span holds, as it was recorded; `None` if it holds none.
pub fn recorded_reward(span: &Span) -> Option<RecordedReward> {
    Some(RecordedReward {
        reward: reward_of(span)?,
        attempt_id: span.attempt_id.clone(),
        span_id: span.span_id.clone(),
        sequence_id: span.sequence_id,
        time: span.start_time,
        generation_id: linked_generation(&span.attributes).map(str::to_owned),
        giver: span.attributes.get(GIVER).and_then(Value::as_str).and_then(RewardGiver::from_word),
    })
}

/// The reward in a span, by Agent-lightning's order: its own attributes, then AgentOps' output, then an annotation's
/// plain `reward`. `None` if it has none, or none that can be read.
pub fn reward_of(span: &Span) -> Option<Reward> {
    if span.attributes.keys().any(|key| key.starts_with(REWARD)) {
        return indexed_reward(&span.attributes);
    }
    let output = ["agentops.task.output", "agentops.entity.output"]
        .iter()
        .find_map(|key| agentops_reward(span.attributes.get(*key)?));
    let plain = || (span.name == ANNOTATION).then(|| span.attributes.get("reward")?.as_f64()).flatten();
    output.or_else(plain).map(Reward::new)
}

/// `agentlightning.reward.N.name` and `.value`; N = 0 is the one that counts.
fn indexed_reward(attributes: &Object) -> Option<Reward> {
    let mut dimensions: BTreeMap<usize, (Option<&str>, Option<f64>)> = BTreeMap::new();
    for (key, value) in attributes {
        let Some((index, field)) =
            key.strip_prefix(REWARD).and_then(|rest| rest.strip_prefix('.')).and_then(|rest| rest.split_once('.'))
        else {
            continue;
        };
        let dimension = dimensions.entry(index.parse().ok()?).or_default();
        match field {
            "name" => dimension.0 = value.as_str(),
            "value" => dimension.1 = value.as_f64(),
            _ => {}
        }
    }
    let (name, value) = dimensions.remove(&0)?;
    Some(Reward {
        value: value?,
        name: name.unwrap_or(Reward::DEFAULT_NAME).to_owned(),
        components: dimensions.into_values().filter_map(|(name, value)| Some((name?.to_owned(), value?))).collect(),
    })
}

/// `{"type": "reward", "value": ..}`, as an object or as JSON text.
fn agentops_reward(output: &Value) -> Option<f64> {
    let parsed: Value;
    let output = match output {
        Value::String(text) => {
            parsed = serde_json::from_str(text).ok()?;
            &parsed
        }
        output => output,
    };
    (output.get("type")? == "reward").then(|| output.get("value")?.as_f64()).flatten()
}

/// The response id that one of the links of a span names.
fn linked_generation(attributes: &Object) -> Option<&str> {
    attributes.iter().find_map(|(key, value)| {
        let prefix = key.strip_suffix(".key_match")?;
        (prefix.starts_with(LINK) && value == RESPONSE_ID)
            .then(|| attributes.get(&format!("{prefix}.value_match"))?.as_str())
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewReward, Repeat, SpanFilter};

    use super::*;
    use crate::keys::holder::KeyHolder;
    use crate::reward_rules::rights::Sender;
    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn a_reward_is_an_annotation_span_and_is_read_back() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let rollout_id = attempted.rollout.rollout_id.as_str();
        store.recording().record(generation("g", &attempted, &[1], &[2])).await.unwrap();
        let reward =
            Reward { value: 1.0, name: "solved".into(), components: vec![("z".into(), 0.5), ("a".into(), -2.0)] };
        let whole = store.rewards().add(rollout_id, "latest", None, reward).await.unwrap();
        let one = store.rewards().add_to_generation(rollout_id, "g", Reward::new(0.25)).await.unwrap();
        assert_eq!(one.generation_id.as_deref(), Some("g"));
        assert_eq!(store.rewards().of_attempt(rollout_id, &attempted.attempt.attempt_id).await.unwrap(), [whole, one]);

        let filter = SpanFilter { rollout_id: rollout_id.into(), ..SpanFilter::default() };
        let spans = store.spans().query(&filter).await.unwrap().items;
        assert_eq!(spans[1].name, "agentlightning.annotation");
        assert_eq!(
            Value::Object(spans[1].attributes.clone()),
            json!({
                "agentlightning.reward.0.name": "solved", "agentlightning.reward.0.value": 1.0,
                "agentlightning.reward.1.name": "z", "agentlightning.reward.1.value": 0.5,
                "agentlightning.reward.2.name": "a", "agentlightning.reward.2.value": -2.0,
                "fulgurite.reward.giver": "admin",
            })
        );
        assert_eq!(
            Value::Object(spans[2].attributes.clone()),
            json!({
                "agentlightning.reward.0.name": "primary", "agentlightning.reward.0.value": 0.25,
                "agentlightning.link.0.key_match": "gen_ai.response.id", "agentlightning.link.0.value_match": "g",
                "fulgurite.reward.giver": "admin",
            })
        );
    }

    #[tokio::test]
    async fn a_reward_for_nothing_or_without_a_number_is_refused() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let rollout_id = attempted.rollout.rollout_id.as_str();
        let error = store.rewards().add("ro-no", "latest", None, Reward::new(1.0)).await.unwrap_err();
        assert_eq!(error.to_string(), "rollout not found: ro-no");
        let error = store.rewards().add(rollout_id, "at-no", None, Reward::new(1.0)).await.unwrap_err();
        assert_eq!(error.to_string(), "attempt not found: at-no");
        let error = store.rewards().add(rollout_id, "latest", Some("g"), Reward::new(1.0)).await.unwrap_err();
        assert_eq!(error.to_string(), "generation not found: g");
        let error = store.rewards().add(rollout_id, "latest", None, Reward::new(f64::NAN)).await.unwrap_err();
        assert_eq!(error.to_string(), "value: must be a finite number");
        assert_eq!(store.rewards().of_attempt(rollout_id, "latest").await.unwrap(), []);
    }

    #[tokio::test]
    async fn the_same_thing_has_rewards_of_one_name_which_a_judge_chooses_anew() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let (rollout_id, attempt_id) = (&attempted.rollout.rollout_id, &attempted.attempt.attempt_id);
        let of_agent = KeyHolder::Attempt { rollout_id: rollout_id.clone(), attempt_id: attempt_id.clone() };
        let give = async |sender: Sender, name: &str, value: f64| {
            let new = NewReward {
                rollout_id: rollout_id.clone(),
                attempt: None,
                generation_id: None,
                reward: Reward { name: name.to_owned(), ..Reward::new(value) },
                giver: None,
                repeat: Repeat::New,
            };
            store.rewards().give(&sender, new).await
        };
        let agent = || Sender::Client(Some(of_agent.clone()));
        give(agent(), "own", 1.0).await.unwrap();
        give(agent(), "own", 0.5).await.unwrap();
        let refused = give(agent(), "other", 0.0).await.unwrap_err();
        assert!(
            matches!(refused, crate::StoreError::OtherRewardName { ref earlier, .. } if earlier == "own"),
            "{refused}"
        );
        give(Sender::Server, "judged", 0.0).await.unwrap();
        let refused = give(Sender::Server, "own", 0.0).await.unwrap_err();
        assert!(matches!(refused, crate::StoreError::OtherRewardName { ref earlier, .. } if earlier == "judged"));
        let values = store.rewards().of_attempt(rollout_id, "latest").await.unwrap();
        assert_eq!(values.iter().map(|found| found.reward.value).collect::<Vec<_>>(), [1.0, 0.5, 0.0]);
    }

    #[test]
    fn every_encoding_of_a_reward_is_read() {
        let span = |name: &str, attributes: Value| {
            let value = json!({
                "rollout_id": "r", "attempt_id": "a", "sequence_id": 1, "trace_id": "t", "span_id": "s",
                "parent_id": null, "name": name, "status": {"status_code": "OK"}, "attributes": attributes,
                "events": [], "links": [], "start_time": 1.0, "end_time": 2e18, "context": null, "parent": null,
                "resource": {"attributes": {}, "schema_url": ""},
            });
            serde_json::from_value::<Span>(value).unwrap()
        };
        let table = [
            (span("x", json!({"agentlightning.reward.0.value": 2})), Some(2.0)),
            (span("x", json!({"agentlightning.reward.1.value": 2})), None),
            (span("x", json!({"agentops.task.output": {"type": "reward", "value": 0.5}})), Some(0.5)),
            (span("x", json!({"agentops.entity.output": "{\"type\": \"reward\", \"value\": 1}"})), Some(1.0)),
            (span("x", json!({"agentops.entity.output": "{\"type\": \"text\", \"value\": 1}"})), None),
            (span("agentlightning.annotation", json!({"reward": 3.0})), Some(3.0)),
            (span("x", json!({"reward": 3.0})), None),
        ];
        for (span, expected) in table {
            assert_eq!(reward_of(&span).map(|reward| reward.value), expected, "{:?}", span.attributes);
            assert_eq!(span.end_time, Some(2e9));
        }
    }
}
