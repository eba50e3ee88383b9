//! What a config says of learning from a teacher's logprobs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TrainError;

/// Whose logprobs a model learns from. Of `on_policy_distillation` the advantage of each sampled token is
/// `-coefficient * (its logprob under the policy - its logprob under the teacher)`, to which the task's reward may add; of
/// `off_policy_distillation` the loss is cross entropy against the teacher's likeliest tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DistillationOptions {
    /// The name of one of `[[models]]` with the same tokenizer: the teacher of every task that `teachers` says nothing of.
    pub teacher: Option<String>,
    /// Of `off_policy_distillation`, and of the losses `forward_kl` and `reverse_kl`: how many of the teacher's likeliest tokens a place is taught, their probabilities divided by
    /// their sum.
    pub top_k: usize,
    /// Of `on_policy_distillation` with a teacher that is the trained model itself: it becomes what the policy is every so many
    /// updates, and stays as it is in between.
    pub refresh_every: u64,
    /// The key of a task whose value says which of `teachers` is its.
    pub task_tag: Option<String>,
    /// The names of `[[models]]`, by the values of `task_tag`.
    pub teachers: BTreeMap<String, String>,
    /// What becomes of tasks that neither `teachers` nor `teacher` has a teacher for.
    pub untaught: Untaught,
    /// What the teacher reads in a system message before the conversation, and the policy does not; `{task}` and `{task.FIELD}`
    /// are filled in.
    pub teacher_system: Option<String>,
    /// Of `on_policy_distillation`: what is learnt of what the policy sampled.
    pub loss: DistillationLoss,
    /// Scale of the difference of logprobs.
    pub coefficient: f32,
    /// Above 0, a token answers for what follows it too, each token further discounted by this.
    pub discount: f32,
    /// What the advantage of the rollout's reward is scaled with; at 0 rewards are told of, and not learnt from.
    pub reward_coefficient: f32,
}

/// What becomes of tasks without a teacher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Untaught {
    /// The run does not begin.
    #[default]
    Refuse,
    /// They are learnt by their rewards, as without teachers, in the same updates.
    Rewards,
}

/// What is learnt of what a policy sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DistillationLoss {
    /// The teacher's logprob of each sampled token, as an advantage: the reverse divergence, estimated.
    #[default]
    PolicyGradient,
    /// Cross entropy against the teacher's `top_k` likeliest tokens in each place.
    ForwardKl,
    /// The reverse divergence over the same tokens, computed in each place.
    ReverseKl,
}

impl DistillationLoss {
    /// As a config names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PolicyGradient => "policy_gradient",
            Self::ForwardKl => "forward_kl",
            Self::ReverseKl => "reverse_kl",
        }
    }

    /// Whether whole distributions are learnt, and not only what was sampled.
    pub(crate) fn is_of_distributions(self) -> bool {
        self != Self::PolicyGradient
    }
}

impl Default for DistillationOptions {
    fn default() -> Self {
        Self {
            teacher: None,
            top_k: 20,
            refresh_every: 1,
            task_tag: None,
            teachers: BTreeMap::new(),
            untaught: Untaught::default(),
            teacher_system: None,
            loss: DistillationLoss::default(),
            coefficient: 1.0,
            discount: 0.0,
            reward_coefficient: 0.0,
        }
    }
}

impl DistillationOptions {
    /// The names of all teachers.
    pub fn teacher_names(&self) -> BTreeSet<&str> {
        self.teachers.values().chain(&self.teacher).map(String::as_str).collect()
    }

    /// The tag of a task, if it has one.
    pub(crate) fn tag(&self, task: &Value) -> Option<String> {
        match task.get(self.task_tag.as_ref()?)? {
            Value::Null => None,
            Value::String(tag) => Some(tag.clone()),
            other => Some(other.to_string()),
        }
    }

    /// The name of a task's teacher; `None` if it is learnt by its rewards alone.
    ///
    /// # Errors
    /// [`TrainError::Option`] if it has none and is to have one.
    pub(crate) fn teacher_of(&self, task: &Value) -> Result<Option<&str>, TrainError> {
        let tag = self.tag(task);
        let named = tag.as_ref().and_then(|tag| self.teachers.get(tag)).or(self.teacher.as_ref());
        if named.is_some() || self.untaught == Untaught::Rewards {
            return Ok(named.map(String::as_str));
        }
        Err({
            let key = self.task_tag.as_deref().unwrap_or_default();
            let what = tag.map_or("does not have it".to_owned(), |tag| format!("has {tag:?}"));
            let message = format!("has no teacher for a task whose `{key}` decides and that {what}: {task}");
            TrainError::Option { key: "[trainer] distillation.teachers".to_owned(), message }
        })
    }

    /// What the advantages of rewards are scaled with beside a task's teacher; `None` of a task that has none.
    pub(crate) fn reward_scale(&self, task: &Value) -> Option<f32> {
        let is_taught = self.teacher_of(task).is_ok_and(|teacher| teacher.is_some());
        is_taught.then_some(self.reward_coefficient)
    }

    /// Refuses what cannot work. Where the targets were written before, no teacher is asked.
    pub(crate) fn check(&self, targets_are_written: bool) -> Result<(), TrainError> {
        self.check_teachers(targets_are_written)?;
        self.check_loss()
    }

    fn check_teachers(&self, targets_are_written: bool) -> Result<(), TrainError> {
        let Self { teacher, task_tag, teachers, untaught, teacher_system, loss, .. } = self;
        if targets_are_written && teacher.is_some() {
            let message =
                "is not asked: what it would say stands in the file of source.form = \"soft_targets\"; leave it out";
            return wrong("teacher", message.to_owned());
        }
        if !targets_are_written && teachers.is_empty() && teacher.is_none() {
            let message = "is missing: the name of one of [[models]], or teachers = { TAG = \"NAME\" }";
            return wrong("teacher", message.to_owned());
        }
        if task_tag.is_some() == teachers.is_empty() {
            let message =
                "names the key of a task that chooses among teachers = { TAG = \"NAME\" }: write both or none";
            return wrong("task_tag", message.to_owned());
        }
        if *untaught == Untaught::Rewards && (teacher.is_some() || loss.is_of_distributions()) {
            let message = "is of loss = \"policy_gradient\" and teachers without a teacher of all others".to_owned();
            return wrong("untaught", message);
        }
        if teacher_system.as_ref().is_some_and(String::is_empty) {
            return wrong("teacher_system", "is empty: leave it out".to_owned());
        }
        Ok(())
    }

    fn check_loss(&self) -> Result<(), TrainError> {
        let Self { top_k, refresh_every, loss, coefficient, discount, reward_coefficient, .. } = self;
        if loss.is_of_distributions() {
            if *discount > 0.0 {
                return wrong("discount", format!("is of loss = \"policy_gradient\", not of \"{}\"", loss.as_str()));
            }
            if *reward_coefficient > 0.0 {
                let message = format!("is of loss = \"policy_gradient\", not of \"{}\"", loss.as_str());
                return wrong("reward_coefficient", message);
            }
        }
        if *top_k == 0 {
            return wrong("top_k", "is 0, but a place needs a token".to_owned());
        }
        if *refresh_every == 0 {
            return wrong("refresh_every", "is 0, but must be at least 1".to_owned());
        }
        if !(coefficient.is_finite() && *coefficient > 0.0) {
            return wrong("coefficient", format!("is {coefficient}, but must be a finite number above 0"));
        }
        if !(0.0..=1.0).contains(discount) {
            return wrong("discount", format!("is {discount}, but must be from 0 to 1"));
        }
        if !(reward_coefficient.is_finite() && *reward_coefficient >= 0.0) {
            return wrong(
                "reward_coefficient",
                format!("is {reward_coefficient}, but must be a finite number from 0 up"),
            );
        }
        Ok(())
    }
}

fn wrong(key: &str, message: String) -> Result<(), TrainError> {
    Err(TrainError::Option { key: format!("[trainer] distillation.{key}"), message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_has_the_teacher_of_its_tag() {
        let options: DistillationOptions = serde_json::from_value(json!({
            "task_tag": "domain", "teachers": { "math": "large", "7": "seven" },
        }))
        .unwrap();
        options.check(false).unwrap();
        assert_eq!(options.teacher_of(&json!({ "domain": "math" })).unwrap(), Some("large"));
        assert_eq!(options.teacher_of(&json!({ "domain": 7 })).unwrap(), Some("seven"));
        let refused = |task: Value| options.teacher_of(&task).unwrap_err().to_string();
        let expected = "[trainer] distillation.teachers has no teacher for a task whose `domain` decides and that ";
        assert_eq!(refused(json!({ "domain": "law" })), format!("{expected}has \"law\": {{\"domain\":\"law\"}}"));
        assert_eq!(refused(json!(3)), format!("{expected}does not have it: 3"));
        let others = DistillationOptions { teacher: Some("other".to_owned()), ..options };
        assert_eq!(others.teacher_of(&json!({ "domain": "law" })).unwrap(), Some("other"));
        let mixed = DistillationOptions { teacher: None, untaught: Untaught::Rewards, ..others.clone() };
        mixed.check(false).unwrap();
        assert_eq!(mixed.teacher_of(&json!({ "domain": "law" })).unwrap(), None);
        let scales = ["law", "math"].map(|domain| mixed.reward_scale(&json!({ "domain": domain })));
        assert_eq!(scales, [None, Some(0.0)]);
        assert_eq!(others.teacher_names().into_iter().collect::<Vec<_>>(), ["large", "other", "seven"]);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let refused = |options: Value| {
            let options: DistillationOptions = serde_json::from_value(options).unwrap();
            options.check(false).unwrap_err().to_string()
        };
        assert!(refused(json!({})).starts_with("[trainer] distillation.teacher is missing"));
        assert!(
            refused(json!({ "teacher": "t", "task_tag": "x" })).starts_with("[trainer] distillation.task_tag names")
        );
        assert!(refused(json!({ "teachers": { "a": "t" } })).starts_with("[trainer] distillation.task_tag names"));
        for (key, value) in [("coefficient", 0.0), ("discount", 1.5), ("reward_coefficient", -1.0)] {
            let message = refused(json!({ "teacher": "t", key: value }));
            assert!(message.starts_with(&format!("[trainer] distillation.{key} is {value}, but must be")), "{message}");
        }
    }
}
