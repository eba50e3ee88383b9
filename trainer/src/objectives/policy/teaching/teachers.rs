//! Models that a policy learns from by their logprobs of what it sampled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fulgurite_backends::{Learner, PromptScores, Sampler};
use fulgurite_renderers::Renderer;
use fulgurite_types::{Backoff, Chunk, Datum, LossInputs, TeacherLogprobs};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value};

use super::super::super::target_distributions::soft_targets;
use super::super::kl_penalty::{KlPenalty, distill, mean_difference};
use super::following_teacher::FollowingTeacher;
use super::teacher_prompt::{TeacherPrompt, TeacherSequence, filled};
use crate::TrainError;
use crate::options::{DistillationLoss, DistillationOptions};
use crate::rollouts::{Collected, Member};

/// Prompts that are scored at a time.
pub(crate) const CONCURRENCY: usize = 16;

/// How often a teacher is asked whose host does not answer, each time after twice as long.
const TRIES: u32 = 5;

/// Two tokens of every vocabulary, which show whether a host tells logprobs of a prompt.
const PROBED: [u32; 2] = [0, 1];

/// Models that a policy learns from, by the names that the options have for them.
#[derive(Clone)]
pub struct Teachers {
    /// Which teacher a task has.
    pub options: DistillationOptions,
    /// Writes what teachers see beside the policy's prompt.
    pub renderer: Arc<dyn Renderer>,
    /// What tells a teacher's logprobs.
    pub samplers: BTreeMap<String, Arc<dyn Sampler>>,
    /// The one of them that becomes what the policy is every so many updates; one that follows each update samples for agents
    /// too, and needs nothing here.
    pub following: Option<FollowingTeacher>,
}

/// Where the rows of a rollout come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MemberPlace {
    pub(crate) group: usize,
    pub(crate) member: usize,
}

/// A row, and who scores it.
struct Scored<'a> {
    teacher: &'a str,
    tag: Option<String>,
    place: MemberPlace,
    /// As the policy has them.
    tokens: Vec<u32>,
    sequence: TeacherSequence,
}

impl Teachers {
    /// Has the one that follows the policy become what it is before the update that follows `step` others, if it is to.
    pub(crate) async fn follow(&mut self, step: u64, learner: &dyn Learner) -> Result<(), TrainError> {
        match &mut self.following {
            Some(following) => following.follow(step, self.options.refresh_every, learner).await,
            None => Ok(()),
        }
    }

    /// Puts what a resumed run needs of it beside a checkpoint.
    pub(crate) async fn save(&self, step: u64, checkpoint: &Path) -> Result<(), TrainError> {
        match &self.following {
            Some(following) => following.save(step, self.options.refresh_every, checkpoint).await,
            None => Ok(()),
        }
    }

    /// Takes that back.
    pub(crate) async fn restore(&mut self, step: u64, checkpoint: &Path) -> Result<(), TrainError> {
        match &mut self.following {
            Some(following) => following.restore(step, self.options.refresh_every, checkpoint).await,
            None => Ok(()),
        }
    }

    /// Refuses tasks without a teacher, and a teacher whose host does not tell logprobs of a prompt.
    ///
    /// # Errors
    /// [`TrainError::Option`], [`TrainError::Teacher`].
    pub(crate) async fn check(&self, tasks: &[Value]) -> Result<(), TrainError> {
        for task in tasks {
            self.options.teacher_of(task)?;
            self.prompt(task)?;
        }
        let top_k = self.alternatives();
        for name in self.options.teacher_names() {
            self.check_likeliest(name, top_k).await?;
        }
        Ok(())
    }

    /// How many likely tokens of each place are learnt.
    fn alternatives(&self) -> usize {
        if self.options.loss.is_of_distributions() { self.options.top_k } else { 0 }
    }

    /// Refuses a teacher whose host does not tell so many likely tokens of a prompt.
    pub(crate) async fn check_likeliest(&self, name: &str, top_k: usize) -> Result<(), TrainError> {
        self.probe(name, top_k.min(1)).await?;
        let most = if top_k > 0 { self.likeliest_limit(name).await? } else { 0 };
        if top_k > most {
            let message = format!("is {top_k}, but the teacher `{name}` tells {most} of the likeliest tokens at most");
            return Err(TrainError::Option { key: "[trainer] distillation.top_k".to_owned(), message });
        }
        Ok(())
    }

    /// Refuses a teacher whose host does not tell logprobs of a prompt, with so many of the likeliest tokens.
    async fn probe(&self, name: &str, alternatives: usize) -> Result<(), TrainError> {
        match self.sampler(name)?.score_prompt(&PROBED, alternatives).await {
            Ok(_) => Ok(()),
            Err(source) => Err(TrainError::Teacher { name: name.to_owned(), source: Box::new(source) }),
        }
    }

    /// What a task's teacher sees and the policy does not.
    fn prompt(&self, task: &Value) -> Result<Option<TeacherPrompt>, TrainError> {
        let Some(text) = &self.options.teacher_system else { return Ok(None) };
        TeacherPrompt::new(&self.renderer, &filled(text, task)?).map(Some)
    }

    /// How many of the likeliest tokens a teacher's host tells at most.
    async fn likeliest_limit(&self, name: &str) -> Result<usize, TrainError> {
        match self.sampler(name)?.info().await {
            Ok(info) => Ok(info.capabilities.top_logprobs),
            Err(source) => Err(TrainError::Teacher { name: name.to_owned(), source: Box::new(source) }),
        }
    }

    /// The teacher of a run that has one.
    pub(crate) fn only(&self) -> Result<&str, TrainError> {
        self.options.teacher.as_deref().ok_or_else(|| TrainError::Option {
            key: "[trainer] distillation.teacher".to_owned(),
            message: "is missing: the name of one of [[models]]".to_owned(),
        })
    }

    fn sampler(&self, name: &str) -> Result<&Arc<dyn Sampler>, TrainError> {
        self.samplers.get(name).ok_or_else(|| TrainError::Option {
            key: "[trainer] distillation".to_owned(),
            message: format!("names the teacher `{name}`, which was not opened"),
        })
    }

    /// What a teacher makes of each token after the first. A host that fails is asked again for a while.
    pub(crate) async fn score(
        &self,
        name: &str,
        tokens: &[u32],
        alternatives: usize,
    ) -> Result<PromptScores, TrainError> {
        let sampler = self.sampler(name)?;
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::MAX);
        for _ in 0..TRIES {
            match sampler.score_prompt(tokens, alternatives).await {
                Err(error) if error.is_hosts_fault() => {
                    tracing::warn!(teacher = name, %error, "a teacher does not answer, and is asked again");
                    tokio::time::sleep(backoff.pause()).await;
                }
                Ok(scores) => return Ok(scores),
                Err(source) => return Err(TrainError::Teacher { name: name.to_owned(), source: Box::new(source) }),
            }
        }
        let last = sampler.score_prompt(tokens, alternatives).await;
        last.map_err(|source| TrainError::Teacher { name: name.to_owned(), source: Box::new(source) })
    }

    /// Adds to the advantages what their teachers make of the rows, of which `places` says whose they are; gives what they
    /// made of each generation. Rows of tasks without a teacher stay as they are.
    pub(crate) async fn teach(
        &self,
        rollouts: &mut [Vec<Datum>],
        places: &[MemberPlace],
        collected: &Collected,
        metrics: &mut Map<String, Value>,
    ) -> Result<Vec<TeacherLogprobs>, TrainError> {
        let mut scored = Vec::new();
        let mut taught = Vec::with_capacity(rollouts.len());
        for (rows, place) in rollouts.iter_mut().zip(places) {
            let task = &member(collected, *place).rollout.input;
            let (teacher, tag) = (self.options.teacher_of(task)?, self.options.tag(task));
            let Some(teacher) = teacher else { continue };
            let prompt = self.prompt(task)?;
            for row in &*rows {
                let tokens = tokens(teacher, row)?;
                let sequence = match &prompt {
                    Some(prompt) => prompt.sequence(&tokens)?,
                    None => TeacherSequence::unchanged(tokens.clone()),
                };
                scored.push(Scored { teacher, tag: tag.clone(), place: *place, tokens, sequence });
            }
            taught.push(rows);
        }
        let scoring = scored.iter().map(|row| (row.teacher.to_owned(), row.sequence.tokens.clone()));
        let scoring =
            scoring.map(|(teacher, tokens)| async move { self.score(&teacher, &tokens, self.alternatives()).await });
        let made: Vec<PromptScores> =
            stream::iter(scoring.collect::<Vec<_>>()).buffered(CONCURRENCY).try_collect().await?;
        let (mut logprobs, mut likeliest) = (Vec::with_capacity(made.len()), Vec::with_capacity(made.len()));
        for (row, made) in scored.iter().zip(made) {
            logprobs.push(row.sequence.in_places_of_policy(made.logprobs));
            likeliest.push(row.sequence.in_places_of_policy(made.likeliest));
        }

        let sizes: Vec<usize> = taught.iter().map(|rows| rows.len()).collect();
        let mut rows: Vec<Datum> = taught.iter_mut().flat_map(|rows| std::mem::take(*rows)).collect();
        let DistillationOptions { coefficient, discount, .. } = self.options;
        let mean = match self.options.loss {
            DistillationLoss::PolicyGradient => distill(&mut rows, &logprobs, KlPenalty { coefficient, discount })?,
            DistillationLoss::ForwardKl | DistillationLoss::ReverseKl => mean_difference(&rows, &logprobs)?,
        };
        if let Some(mean) = mean {
            metrics.insert("teacher_kl".to_owned(), mean.into());
        }
        note_differences_by_tag(&scored, &rows, &logprobs, metrics)?;
        if self.options.loss.is_of_distributions() {
            for ((row, likeliest), scored) in rows.iter_mut().zip(&likeliest).zip(&scored) {
                self.teach_distributions(scored.teacher, row, likeliest)?;
            }
        }
        let mut rows = rows.into_iter();
        for (rollout, size) in taught.into_iter().zip(sizes) {
            *rollout = rows.by_ref().take(size).collect();
        }
        Ok(of_generations(&scored, &logprobs, collected))
    }
}

/// Notes how far the policy is from the teacher of each tag.
fn note_differences_by_tag(
    scored: &[Scored<'_>],
    rows: &[Datum],
    logprobs: &[Vec<f32>],
    metrics: &mut Map<String, Value>,
) -> Result<(), TrainError> {
    let tags: BTreeSet<&String> = scored.iter().filter_map(|row| row.tag.as_ref()).collect();
    for tag in tags {
        let is_of = |row: &Scored<'_>| row.tag.as_ref() == Some(tag);
        let of_tag = scored.iter().zip(rows).zip(logprobs).filter(|((scored, _), _)| is_of(scored));
        let (data, logprobs): (Vec<Datum>, Vec<Vec<f32>>) =
            of_tag.map(|((_, row), logprobs)| (row.clone(), logprobs.clone())).unzip();
        if let Some(mean) = mean_difference(&data, &logprobs)? {
            metrics.insert(format!("teacher_kl/{tag}"), mean.into());
        }
    }
    Ok(())
}

impl Teachers {
    /// Puts the likeliest tokens of each sampled token's place in the place of what the policy gradient takes.
    fn teach_distributions(
        &self,
        name: &str,
        row: &mut Datum,
        likeliest: &[Vec<(u32, f32)>],
    ) -> Result<(), TrainError> {
        let LossInputs::Policy { mask, .. } = &row.loss_inputs else { return Ok(()) };
        let weights: Vec<f32> = mask.iter().map(|mask| mask * self.options.coefficient).collect();
        let vocabulary = self.renderer.tokenizer().vocabulary_size();
        let targets = soft_targets(&weights, likeliest, self.options.top_k, |token| (token as usize) < vocabulary);
        row.loss_inputs = targets.ok_or_else(|| TrainError::TeacherWithoutTargets { name: name.to_owned() })?;
        Ok(())
    }
}

fn member(collected: &Collected, place: MemberPlace) -> &Member {
    &collected.groups[place.group][place.member]
}

/// All tokens of a row, the last of which is a target alone.
fn tokens(teacher: &str, row: &Datum) -> Result<Vec<u32>, TrainError> {
    let mut tokens = Vec::with_capacity(row.positions() + 1);
    for chunk in &row.model_input {
        match chunk {
            Chunk::Tokens(chunk) => tokens.extend(chunk),
            Chunk::Image { .. } => return Err(TrainError::TeacherOfImages { name: teacher.to_owned() }),
        }
    }
    tokens.extend(row.target_tokens.last());
    Ok(tokens)
}

/// What was made of each generation that some row holds.
fn of_generations(scored: &[Scored<'_>], logprobs: &[Vec<f32>], collected: &Collected) -> Vec<TeacherLogprobs> {
    let mut teacher_logprobs = Vec::new();
    let rows: Vec<(&Scored<'_>, &Vec<f32>)> = scored.iter().zip(logprobs).collect();
    for of_rollout in rows.chunk_by(|(one, _), (other, _)| one.place == other.place) {
        let Some((Scored { place, teacher, .. }, _)) = of_rollout.first() else { continue };
        for generation in member(collected, *place).trained() {
            let (prompt, sampled) = (&generation.prompt_tokens, &generation.sampled_tokens);
            let of_row = |(row, logprobs): &(&Scored<'_>, &Vec<f32>)| {
                let rest = row.tokens.strip_prefix(prompt.as_slice())?;
                // The logprobs begin with the second token's.
                let first = prompt.len().checked_sub(1)?;
                rest.starts_with(sampled).then(|| logprobs[first..first + sampled.len()].to_vec())
            };
            if let Some(logprobs) = of_rollout.iter().find_map(of_row) {
                let (generation_id, teacher) = (generation.generation_id.clone(), (*teacher).to_owned());
                teacher_logprobs.push(TeacherLogprobs { generation_id, teacher, logprobs });
            }
        }
    }
    teacher_logprobs
}
