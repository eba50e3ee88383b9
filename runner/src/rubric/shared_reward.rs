//! A reward to which a grader and a rubric both give their part.

use serde_json::{Number, Value};

use super::options::{GRADED, JUDGED};
use crate::grader::GradeFault;
use crate::reward::Reward;

/// The rubric's `share` of what it `judged`, and the rest of what was `graded`; all components stand beside it.
///
/// # Errors
/// If a component of the grader has a criterion's name.
pub(crate) fn shared_reward(share: f64, graded: Reward, judged: Reward) -> Result<Reward, GradeFault> {
    let Reward { value: of_grader, components: mut all, .. } = graded;
    if let Some(name) = judged.components.keys().find(|name| all.contains_key(*name)) {
        return Err(GradeFault::Failed(format!(
            "the grader's component {name:?} has the name of a criterion of [runner.rubric]"
        )));
    }
    let number = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
    let value = share.mul_add(number(&judged.value), (1.0 - share) * number(&of_grader));
    let value = Number::from_f64(value).ok_or_else(|| GradeFault::Failed("the reward is no number".to_owned()))?;
    all.extend(judged.components);
    all.extend([(GRADED.to_owned(), Value::Number(of_grader)), (JUDGED.to_owned(), Value::Number(judged.value))]);
    Ok(Reward::new(value, all))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grader_and_a_judge_share_a_reward() {
        let reward = |fields: Value| Reward::of_fields(fields.as_object().unwrap().clone()).unwrap();
        let shared = |graded, judged| shared_reward(0.25, reward(graded), reward(judged));
        let both = shared(json!({ "reward": 1, "mail_sent": 1 }), json!({ "reward": 0.5, "polite": 0 })).unwrap();
        let both = json!(both);
        assert_eq!(both["value"], 0.875);
        assert_eq!(both["components"], json!({ "mail_sent": 1, "polite": 0, "graded": 1, "judged": 0.5 }));
        let twice = shared(json!({ "reward": 1, "polite": 1 }), json!({ "reward": 0.5, "polite": 0 })).unwrap_err();
        assert!(twice.to_string().contains("\"polite\" has the name of a criterion"), "{twice}");
    }
}
