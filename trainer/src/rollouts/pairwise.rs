//! Rewards of a group from comparing its answers: each with each other, in both orders.

use std::sync::Arc;

use fulgurite_backends::{BackendError, SampleEvent, SampleRequest, Sampler};
use fulgurite_renderers::{Renderer, Tokenizer};
use fulgurite_types::{AttemptRef, Message, NewReward, Repeat, RewardGiver, SamplingParameters};
use futures::future::try_join_all;
use serde_json::Value;

use super::answer_scores::AnswerScores;
use super::collected::Collected;
use super::member::Member;
use crate::TrainError;
use crate::conversations::{FIRST, SECOND, TIE, question};
use crate::options::PairwiseReward;

/// Who says which of two answers is better.
#[derive(Clone)]
pub enum PairwiseJudge {
    /// The one that took fewer tokens: a run without any judge, to see whether pairwise learning works.
    Shorter,
    /// A model that was trained by `objective = "reward_model"`.
    Model {
        /// What is asked.
        sampler: Arc<dyn Sampler>,
        /// Writes the question.
        renderer: Arc<dyn Renderer>,
    },
    /// One that was trained with `preference.head = "score"`: the greater score wins.
    Scores(AnswerScores),
}

/// Who judges the answers of a group.
#[derive(Clone)]
pub struct GroupJudge {
    /// Who says which of two is better.
    pub judge: PairwiseJudge,
    /// Reads what the policy said.
    pub policy_tokenizer: Arc<Tokenizer>,
}

/// Rewards every rollout of a group with its share of wins.
#[derive(Clone)]
pub(crate) struct Pairwise {
    pub(crate) judge: GroupJudge,
    /// Whether an answer that a limit cut off earns 0 at most.
    pub(crate) zero_on_limit: bool,
    pub(crate) reward: PairwiseReward,
    /// The share of comparisons that a judge may leave undecided.
    pub(crate) undecided_limit: f64,
}

/// An answer, as it is compared.
#[derive(Clone, Debug)]
struct Contestant {
    /// Its place in the group.
    place: usize,
    tokens: usize,
    text: String,
}

/// What a judge of a batch said.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// The rewards, as they are to be recorded.
    pub(crate) given: Vec<NewReward>,
    /// Comparisons that a model was asked for.
    pub(crate) comparisons: u64,
    /// Those of which it said neither letter.
    pub(crate) undecided: u64,
    /// What it said in place of the last one.
    pub(crate) answer: String,
}

impl Judged {
    /// Counts a comparison.
    fn count(&mut self, comparison: &Compared) {
        self.comparisons += u64::from(comparison.is_judged);
        if let Some(answer) = &comparison.undecided {
            self.undecided += 1;
            self.answer.clone_from(answer);
        }
    }

    /// Ends a run whose judge left a greater share of its comparisons undecided than the `limit`.
    ///
    /// # Errors
    /// [`TrainError::JudgeUndecided`].
    fn check(&self, limit: f64) -> Result<(), TrainError> {
        let Self { comparisons, undecided, .. } = *self;
        match undecided as f64 > limit * comparisons as f64 {
            true => Err(TrainError::JudgeUndecided { undecided, comparisons, limit, answer: self.answer.clone() }),
            false => Ok(()),
        }
    }
}

/// What came of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
struct Compared {
    /// 1 if the first one wins, 0 if the second one does, a half for a tie.
    win: f64,
    /// Whether a model was asked.
    is_judged: bool,
    /// What it said where that was no letter.
    undecided: Option<String>,
}

impl Pairwise {
    /// Ends a run whose judge decides too little.
    ///
    /// # Errors
    /// [`TrainError::JudgeUndecided`].
    pub(crate) fn check(&self, judged: &Judged) -> Result<(), TrainError> {
        judged.check(self.undecided_limit)
    }

    /// Puts the share of wins in the place of what the rollouts of each group earned, and gives these rewards as they are to be
    /// recorded. Those that failed, or said nothing that is trained, are compared with none.
    pub(crate) async fn reward(&self, collected: &mut Collected) -> Result<Judged, TrainError> {
        let mut judged = Judged::default();
        for group in &mut collected.groups {
            let contestants: Vec<Contestant> =
                group.iter().enumerate().filter_map(|(place, member)| self.contestant(place, member)).collect();
            let prompt = group.first().map(|member| prompt_of(&member.rollout.input)).unwrap_or_default();
            let shares = self.shares(&prompt, &contestants, &mut judged).await?;
            for (contestant, share) in contestants.iter().zip(shares) {
                let member = &mut group[contestant.place];
                let is_cut = self.zero_on_limit && member.stop.is_limit();
                member.total_reward = if is_cut { share.min(0.0) } else { share };
                let whole =
                    member.rewards.iter().rposition(|reward| reward.generation_id.is_none()).unwrap_or_default();
                let mut reward = member.rewards.swap_remove(whole);
                (reward.generation_id, reward.reward.value) = (None, share);
                judged.given.push(NewReward {
                    rollout_id: member.rollout.rollout_id.clone(),
                    attempt: Some(AttemptRef::Id(reward.attempt_id.clone())),
                    generation_id: None,
                    reward: reward.reward.clone(),
                    giver: Some(RewardGiver::Judge),
                    repeat: Repeat::New,
                });
                member.rewards = vec![reward];
            }
        }
        Ok(judged)
    }

    fn contestant(&self, place: usize, member: &Member) -> Option<Contestant> {
        if !member.succeeded() || member.is_penalized {
            return None;
        }
        let tokens = member.trained().map(|generation| generation.sampled_tokens.len()).sum();
        let tokenizer = &self.judge.policy_tokenizer;
        let last = member.trained().max_by_key(|generation| generation.sequence_id)?;
        let sampled: Vec<u32> =
            last.sampled_tokens.iter().copied().filter(|token| !tokenizer.is_control(*token)).collect();
        Some(Contestant { place, tokens, text: tokenizer.decode(&sampled) })
    }

    /// Of each, how many of its comparisons it wins; a tie is half a win, and who is alone ties.
    async fn shares(
        &self,
        prompt: &[Message],
        contestants: &[Contestant],
        judged: &mut Judged,
    ) -> Result<Vec<f64>, TrainError> {
        let count = contestants.len();
        if let PairwiseJudge::Scores(scores) = &self.judge.judge {
            let answers: Vec<&str> = contestants.iter().map(|contestant| contestant.text.as_str()).collect();
            let scores = scores.of(prompt, &answers).await?;
            return Ok(match self.reward {
                PairwiseReward::Score => scores,
                PairwiseReward::Wins => shares_of_wins(&scores),
            });
        }
        if count < 2 {
            return Ok(vec![0.5; count]);
        }
        let pairs: Vec<(usize, usize)> = (0..count)
            .flat_map(|first| (0..count).filter(move |second| *second != first).map(move |second| (first, second)))
            .collect();
        let comparisons =
            pairs.iter().map(|(first, second)| self.compare(prompt, &contestants[*first], &contestants[*second]));
        let wins = try_join_all(comparisons).await?;
        let mut shares = vec![0.0; count];
        for ((first, second), compared) in pairs.into_iter().zip(wins) {
            judged.count(&compared);
            shares[first] += compared.win;
            shares[second] += 1.0 - compared.win;
        }
        shares.iter_mut().for_each(|share| *share /= 2.0 * (count - 1) as f64);
        Ok(shares)
    }

    async fn compare(
        &self,
        prompt: &[Message],
        first: &Contestant,
        second: &Contestant,
    ) -> Result<Compared, TrainError> {
        let (sampler, renderer) = match &self.judge.judge {
            PairwiseJudge::Shorter => {
                let win = match first.tokens.cmp(&second.tokens) {
                    std::cmp::Ordering::Less => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Greater => 0.0,
                };
                return Ok(Compared { win, ..Compared::default() });
            }
            PairwiseJudge::Model { sampler, renderer } => (sampler, renderer),
            // All of a group are scored together.
            PairwiseJudge::Scores(_) => return Ok(Compared { win: 0.5, ..Compared::default() }),
        };
        let answer = |contestant: &Contestant| [Message::text("assistant", contestant.text.clone())];
        let rendered = renderer.render_prompt(&question(prompt, &answer(first), &answer(second)), &[])?;
        let context_length = sampler.info().await?.context_length;
        if rendered.tokens.len() >= context_length {
            tracing::warn!(
                tokens = rendered.tokens.len(),
                context_length,
                "two answers are too long for the judge, and tie"
            );
            return Ok(Compared { win: 0.5, ..Compared::default() });
        }
        let answer = letter(sampler.as_ref(), rendered.tokens).await?;
        let answer = answer.map(|token| renderer.tokenizer().decode(&[token])).unwrap_or_default();
        Ok(compared(&answer))
    }
}

/// Of each, the share of the others that have a lower score; an equal one is half.
fn shares_of_wins(scores: &[f64]) -> Vec<f64> {
    let win = |own: f64, other: f64| match own.total_cmp(&other) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let others = scores.len().saturating_sub(1);
    let share = |own: f64| {
        // One of the ties is with itself.
        let wins = scores.iter().map(|other| win(own, *other)).sum::<f64>() - 0.5;
        if others == 0 { 0.5 } else { wins / others as f64 }
    };
    scores.iter().map(|own| share(*own)).collect()
}

/// What a model's letter says.
fn compared(answer: &str) -> Compared {
    let (win, undecided) = match answer.trim() {
        FIRST => (1.0, None),
        SECOND => (0.0, None),
        // One token of it.
        tie if !tie.is_empty() && TIE.starts_with(tie) => (0.5, None),
        _ => (0.5, Some(answer.to_owned())),
    };
    Compared { win, is_judged: true, undecided }
}

/// The likeliest next token.
async fn letter(sampler: &dyn Sampler, prompt: Vec<u32>) -> Result<Option<u32>, BackendError> {
    let request = SampleRequest {
        sampling: SamplingParameters { temperature: 0.0, ..SamplingParameters::default() },
        ..SampleRequest::new(prompt, 1, 0)
    };
    let mut stream = sampler.sample(request).await?;
    loop {
        match stream.next().await? {
            SampleEvent::Token(token) => return Ok(Some(token.id)),
            SampleEvent::Finished(_) => return Ok(None),
            SampleEvent::CachedPrompt(_) | SampleEvent::WeightsVersions(_) => {}
        }
    }
}

/// A task as the prompt that its answers are judged by: its text, its `messages`, its `prompt` or `question`, or else its JSON.
fn prompt_of(input: &Value) -> Vec<Message> {
    let text = |text: &str| vec![Message::text("user", text)];
    match input {
        Value::String(words) => text(words),
        Value::Object(fields) => {
            if let Some(messages) = fields.get("messages").cloned()
                && let Ok(messages) = serde_json::from_value(messages)
            {
                return messages;
            }
            let named = ["prompt", "question"].iter().find_map(|key| fields.get(*key)?.as_str());
            named.map_or_else(|| text(&input.to_string()), text)
        }
        other => text(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pairwise(directory: &std::path::Path) -> Pairwise {
        let json = fulgurite_renderers::train_byte_level_tokenizer(["a b"; 2], 280, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory, &json).unwrap();
        let policy_tokenizer = Arc::new(Tokenizer::open(directory).unwrap());
        let judge = GroupJudge { judge: PairwiseJudge::Shorter, policy_tokenizer };
        Pairwise { judge, zero_on_limit: false, reward: PairwiseReward::Wins, undecided_limit: 0.5 }
    }

    #[tokio::test]
    async fn the_shorter_answer_wins_its_share() {
        let directory = tempfile::tempdir().unwrap();
        let pairwise = pairwise(directory.path());
        let contestant = |tokens| Contestant { place: 0, tokens, text: String::new() };
        let shares = async |lengths: &[usize]| {
            let contestants: Vec<Contestant> = lengths.iter().copied().map(contestant).collect();
            pairwise.shares(&[], &contestants, &mut Judged::default()).await.unwrap()
        };
        assert_eq!(shares(&[3, 5, 9]).await, [1.0, 0.5, 0.0]);
        assert_eq!(shares(&[4, 4, 9]).await, [0.75, 0.75, 0.0]);
        assert_eq!(shares(&[4, 4]).await, [0.5, 0.5]);
        assert_eq!(shares(&[4]).await, [0.5]);
        assert!(shares(&[]).await.is_empty());
    }

    #[test]
    fn a_judge_that_says_no_letter_is_counted_and_ends_the_run_at_half_of_them() {
        let judged = |answer: &[&str]| {
            let mut judged = Judged::default();
            answer.iter().for_each(|answer| judged.count(&compared(answer)));
            judged
        };
        assert_eq!([" A", "B\n", TIE, "The"].map(|answer| compared(answer).win), [1.0, 0.0, 0.5, 0.5]);
        let half = judged(&["A", "The", TIE, "I"]);
        assert_eq!((half.comparisons, half.undecided, half.answer.as_str()), (4, 2, "I"));
        half.check(0.5).unwrap();
        Judged::default().check(0.0).unwrap();
        half.check(0.25).unwrap_err();
        let error = judged(&["A", "The", "I"]).check(0.5).unwrap_err().to_string();
        assert!(error.contains("neither letter of 2 of 3 comparisons") && error.contains("\"I\""), "{error}");
        assert!(error.contains("undecided_limit = 0.5"), "{error}");
    }

    #[test]
    fn a_greater_score_wins_and_who_is_alone_ties() {
        assert_eq!(shares_of_wins(&[1.0, -2.0, 0.5]), [1.0, 0.0, 0.5]);
        assert_eq!(shares_of_wins(&[1.0, 1.0, -9.0]), [0.75, 0.75, 0.0]);
        assert_eq!(shares_of_wins(&[3.0]), [0.5]);
        assert!(shares_of_wins(&[]).is_empty());
    }

    #[test]
    fn a_task_is_a_prompt() {
        let text = |input: Value| match &prompt_of(&input)[..] {
            [message] => json!(message)["content"].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(json!("a")), "a");
        assert_eq!(text(json!(17)), "17");
        assert_eq!(text(json!({ "question": "a", "answer": "b" })), "a");
        assert_eq!(text(json!({ "messages": [{ "role": "user", "content": "a" }] })), "a");
        assert_eq!(text(json!({ "n": 1 })), "{\"n\":1}");
    }
}
