//! The keys of the config that a coding agent may set for its runs, by `fulgurite mcp`'s tools.

use anyhow::{Result, anyhow, bail};
use fulgurite_types::shortened;
use serde::Deserialize;
use toml::Value;

use crate::overrides::Override;
use crate::setting_key::SettingKey;

/// What a value may be. None of these can name a file outside the project, a URL, an environment variable or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    /// `true` or `false`.
    Switch,
    /// The name of a choice or of a model of the config.
    Word,
    Numbers,
    Words,
    /// What a model reads.
    Prose,
}

use Kind::{Number, Numbers, Prose, Switch, Word, Words};

/// Any one name.
const ANY: &str = "*";
/// Longest word, in bytes.
const LONGEST_WORD: usize = 64;
/// Longest prose, in bytes.
const LONGEST_PROSE: usize = 64 << 10;
/// Most items of a list.
const MOST_ITEMS: usize = 64;

/// All that can be set. What is not here is refused, whatever it is.
const SETTABLE: [(&str, Kind); 110] = [
    ("run.seed", Number),
    ("models.0.renderer", Word),
    ("models.0.tools", Word),
    ("models.0.lora_rank", Number),
    ("models.0.lora_alpha", Number),
    ("models.0.lora_modules", Words),
    ("trainer.train_on", Word),
    ("trainer.reduction", Word),
    ("trainer.epochs", Number),
    ("trainer.batch_size", Number),
    ("trainer.max_tokens", Number),
    ("trainer.packing", Switch),
    ("trainer.unusable_rows", Word),
    ("trainer.truncate", Switch),
    ("trainer.preference.beta", Number),
    ("trainer.preference.label_smoothing", Number),
    ("trainer.preference.desirable_weight", Number),
    ("trainer.preference.undesirable_weight", Number),
    ("trainer.preference.reference", Word),
    ("trainer.pairwise.judge", Word),
    ("trainer.groups_per_batch", Number),
    ("trainer.group_size", Number),
    ("trainer.learning_rate", Number),
    ("trainer.learning_rate_schedule", Word),
    ("trainer.learning_rate_floor", Number),
    ("trainer.learning_rate_decay", Number),
    ("trainer.warmup", Number),
    ("trainer.beta1", Number),
    ("trainer.beta2", Number),
    ("trainer.epsilon", Number),
    ("trainer.weight_decay", Number),
    ("trainer.gradient_clip_norm", Number),
    ("trainer.max_steps", Number),
    ("trainer.checkpoint_every", Number),
    ("trainer.checkpoint_every_tokens", Number),
    ("trainer.checkpoint_every_seconds", Number),
    ("trainer.reward_bounds", Numbers),
    ("trainer.failures.reruns", Number),
    ("trainer.failures.least_members", Number),
    ("trainer.failures.agent_reward", Number),
    ("trainer.advantages.baseline", Word),
    ("trainer.advantages.normalize_by_standard_deviation", Switch),
    ("trainer.advantages.standard_deviation_of", Word),
    ("trainer.advantages.counted", Word),
    ("trainer.advantages.per_call.discount", Number),
    ("trainer.advantages.per_call.compared_with", Word),
    ("trainer.advantages.per_call.rollout_weight", Number),
    ("trainer.zero_reward_on_limit", Switch),
    ("trainer.loss", Word),
    ("trainer.loss_parameters.clip_low", Number),
    ("trainer.loss_parameters.clip_high", Number),
    ("trainer.loss_parameters.beta", Number),
    ("trainer.loss_aggregation", Word),
    ("trainer.kl.coefficient", Number),
    ("trainer.kl.target", Number),
    ("trainer.kl.horizon", Number),
    ("trainer.kl.in", Word),
    ("trainer.kl.discount", Number),
    ("trainer.kl.reference", Word),
    ("trainer.distillation.teacher", Word),
    ("trainer.distillation.top_k", Number),
    ("trainer.distillation.refresh_every", Number),
    ("trainer.distillation.task_tag", Word),
    ("trainer.distillation.teachers.*", Word),
    ("trainer.distillation.untaught", Word),
    ("trainer.distillation.teacher_system", Prose),
    ("trainer.distillation.loss", Word),
    ("trainer.distillation.coefficient", Number),
    ("trainer.distillation.discount", Number),
    ("trainer.distillation.reward_coefficient", Number),
    ("trainer.substeps", Number),
    ("trainer.schedule", Word),
    ("trainer.schedule.async.max_staleness", Number),
    ("trainer.schedule.minibatches", Number),
    ("trainer.importance_mask", Numbers),
    ("trainer.dynamic_sampling.max_refills", Number),
    ("trainer.dynamic_sampling.solve_rate", Numbers),
    ("trainer.dynamic_sampling.solved_at", Number),
    ("trainer.dynamic_sampling.prioritize", Switch),
    ("trainer.curriculum.pass_rate", Numbers),
    ("trainer.curriculum.window", Number),
    ("trainer.curriculum.outside", Number),
    ("trainer.curriculum.solved_at", Number),
    ("trainer.curriculum.replay", Number),
    ("trainer.curriculum.replay_groups", Number),
    ("trainer.sampling_parameters.temperature", Number),
    ("trainer.sampling_parameters.top_p", Number),
    ("trainer.sampling_parameters.top_k", Number),
    ("trainer.sampling_parameters.min_p", Number),
    ("trainer.sampling_parameters.presence_penalty", Number),
    ("trainer.sampling_parameters.frequency_penalty", Number),
    ("trainer.sampling_parameters.repetition_penalty", Number),
    ("trainer.sampling_parameters.max_tokens", Number),
    ("trainer.sampling_parameters.max_completion_tokens", Number),
    ("trainer.sampling_parameters.seed", Number),
    ("trainer.evaluation.every", Number),
    ("trainer.evaluation.samples_per_task", Number),
    ("trainer.stop.held_out_reward", Number),
    ("trainer.stop.held_out.*", Number),
    ("trainer.stop.in_a_row", Number),
    ("trainer.stop.patience", Number),
    ("trainer.stop.least_improvement", Number),
    ("trainer.final_weights", Word),
    ("trainer.spike_factor", Number),
    ("trainer.spike_window", Number),
    ("trainer.stop_after_spikes", Number),
    ("trainer.stop_without_gradient", Number),
    ("trainer.record_tokens", Switch),
    ("trainer.publish_if", Word),
    ("trainer.publish_max_kl", Number),
];

/// The setting that an agent gave as a key and a value of JSON, as `--set` takes it.
///
/// # Errors
/// If the key is not one key, is none of those that an agent may set, or has a value of another kind.
pub fn agent_setting(key: &str, value: &serde_json::Value) -> Result<String> {
    let key: SettingKey = key.parse()?;
    let value = Value::deserialize(value)
        .map_err(|_| anyhow!("{key} has a value that the config cannot have, such as null"))?;
    check(&key, &value)?;
    Ok(Override { key, value }.argument())
}

fn check(key: &SettingKey, value: &Value) -> Result<()> {
    if let (Value::Table(table), true) = (value, may_be_table(key)) {
        return table.iter().try_for_each(|(name, value)| check(&key.below(name), value));
    }
    let kind = SETTABLE.iter().find(|(pattern, _)| matches(pattern, key.names())).map(|(_, kind)| *kind);
    let Some(kind) = kind else {
        bail!(
            "{key} cannot be set: keys of [trainer] (trainer.learning_rate), of the model (models.0.lora_rank) and run.seed can, \
             unless they name files, places, variables or commands"
        );
    };
    if !kind.takes(value) {
        bail!("{key} is {}, but must be {}", shortened(&value.to_string(), 200, "..."), kind.described());
    }
    Ok(())
}

fn matches(pattern: &str, names: &[String]) -> bool {
    let mut wanted = pattern.split('.');
    names.iter().all(|name| wanted.next().is_some_and(|wanted| wanted == ANY || wanted == name))
        && wanted.next().is_none()
}

/// Whether all keys of a table are settable, so that a whole one may be put in its place.
fn may_be_table(key: &SettingKey) -> bool {
    let names = key.names();
    let is_above = |pattern: &str| {
        let wanted: Vec<&str> = pattern.split('.').collect();
        wanted.len() > names.len() && wanted.iter().zip(names).all(|(wanted, name)| *wanted == ANY || wanted == name)
    };
    names.len() > 1 && names[0] == "trainer" && SETTABLE.iter().any(|(pattern, _)| is_above(pattern))
}

impl Kind {
    fn takes(self, value: &Value) -> bool {
        let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Float(_));
        let is_word = |value: &Value| value.as_str().is_some_and(is_word);
        let items = |is_one: &dyn Fn(&Value) -> bool| {
            value.as_array().is_some_and(|items| items.len() <= MOST_ITEMS && items.iter().all(is_one))
        };
        match self {
            Number => is_number(value),
            Switch => value.is_bool(),
            Word => is_word(value),
            Numbers => items(&is_number),
            Words => items(&is_word),
            Prose => value.as_str().is_some_and(|text| text.len() <= LONGEST_PROSE && !text.contains('\0')),
        }
    }

    fn described(self) -> &'static str {
        match self {
            Number => "a number",
            Switch => "true or false",
            Word => "a name of letters, digits, `.`, `_` and `-`",
            Numbers => "a list of numbers",
            Words => "a list of names",
            Prose => "text of at most 64 KiB",
        }
    }
}

fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= LONGEST_WORD
        && text.bytes().all(is_plain)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refusal(key: &str, value: serde_json::Value) -> String {
        agent_setting(key, &value).expect_err(key).to_string()
    }

    #[test]
    fn an_agent_sets_what_is_learnt_and_how() {
        let set = |key: &str, value: serde_json::Value| agent_setting(key, &value).unwrap();
        assert_eq!(set("trainer.learning_rate", json!(1e-3)), "trainer.learning_rate=0.001");
        assert_eq!(set("models.0.lora_rank", json!(8)), "models.0.lora_rank=8");
        assert_eq!(set("models.0.lora_modules", json!(["q_proj"])), "models.0.lora_modules=[\"q_proj\"]");
        assert_eq!(set("trainer.loss", json!("ppo")), "trainer.loss=\"ppo\"");
        assert_eq!(set("trainer.evaluation", json!({ "every": 2 })), "trainer.evaluation={ every = 2 }");
        assert_eq!(set("trainer.stop.held_out", json!({ "a/b": 0.5 })), "trainer.stop.held_out={ \"a/b\" = 0.5 }");
        let schedule = set("trainer.schedule", json!({ "async": { "max_staleness": 2 } }));
        assert_eq!(schedule, "trainer.schedule={ async = { max_staleness = 2 } }");
        assert_eq!(set("trainer.schedule", json!("sync")), "trainer.schedule=\"sync\"");
    }

    #[test]
    fn an_agents_settings_reach_no_place_variable_or_command() {
        for key in [
            "runner.command",
            "runner.grade",
            "base.corpus",
            "store.url",
            "trainer.objective",
            "trainer.checkpoint_url",
            "trainer.keep_checkpoints",
            "trainer.source.conversations",
            "trainer.conversations.file",
            "trainer.harvest.validation",
            "models.0.path",
            "models.0.backend",
            "models.0.urls",
            "models.0.api_key_env",
            "models.0.key_header",
            "models.0.base_model",
            "models.0.name",
            "models.1.lora_rank",
            "models.00.lora_rank",
            "'models'.\"0\".\"p\\u0061th\"",
            "\"trainer\".'checkpoint_url'",
        ] {
            assert!(refusal(key, json!("x")).contains("cannot be set"), "{key}: {}", refusal(key, json!("x")));
        }
        for (key, value) in [
            ("trainer", json!({ "learning_rate": 1 })),
            ("models", json!([{ "path": "/" }])),
            ("models.0", json!({ "lora_rank": 1 })),
            ("run", json!({ "seed": 1 })),
            ("trainer.schedule", json!({ "file": "x" })),
            ("trainer.evaluation", json!({ "every": 2, "file": "/etc/passwd" })),
            ("trainer.kl", json!({ "coefficient": 1, "x": { "y": 1 } })),
        ] {
            assert!(refusal(key, value).contains("cannot be set"), "{key}");
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        insta::assert_snapshot!(refusal("trainer.loss", json!("../x")), @r#"trainer.loss is "../x", but must be a name of letters, digits, `.`, `_` and `-`"#);
        insta::assert_snapshot!(refusal("trainer.kl", serde_json::Value::Null), @"trainer.kl has a value that the config cannot have, such as null");
        for (key, value) in [
            ("trainer.learning_rate", json!("1e-3")),
            ("trainer.learning_rate", json!([1])),
            ("trainer.stop.held_out", json!({ "x": { "y": 1 } })),
            ("trainer.kl.reference", json!("/models/x")),
            ("trainer.kl.reference", json!("http://h")),
            ("trainer.kl.reference", json!("..")),
            ("trainer.kl.reference", json!("$HOME")),
            ("trainer.reward_bounds", json!([{ "a": 1 }])),
            ("models.0.lora_modules", json!(["q_proj", ["x"]])),
            ("models.0.renderer", json!({ "path": "x" })),
        ] {
            assert!(refusal(key, value).contains("but must be"), "{key}");
        }
    }

    #[test]
    fn a_key_that_is_not_one_key_is_refused() {
        for key in [
            "models.0.path ",
            " models.0.path",
            "models.0.lora_rank ",
            "models.0.backend='vllm' #",
            "trainer.beta1=1\ntrainer.checkpoint_url='s3://x' #",
            "models.0.lora_rank.",
            "models..0.path",
            "models.+0.path",
            "models.0.path\u{a0}",
            "models.\u{ff10}.path",
            "trainer.",
            "",
        ] {
            assert!(agent_setting(key, &json!("x")).is_err() && agent_setting(key, &json!(1)).is_err(), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn what_an_agent_may_set_is_read_back_as_the_same_key(
            key in "(models\\.0|trainer|run)(\\.|\\. | \\.)(path|backend|seed|loss|\"urls\"|beta1)[ .='#\"\n]{0,4}",
            text in "[a-z/$.= #\n\"']{0,8}",
        ) {
            if let Ok(argument) = agent_setting(&key, &json!(text)) {
                let read: Override = argument.parse().unwrap();
                prop_assert_eq!(read.key, key.parse::<SettingKey>().unwrap());
                prop_assert_eq!(read.value, Value::String(text));
            }
        }
    }
}
