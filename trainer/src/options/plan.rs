//! What the way of training of each objective is told.

use fulgurite_backends::PreferenceLoss;

use super::keys::data_source::{ConversationForm, LossReduction, Packing, TrainOn};
use super::keys::distillation::DistillationOptions;
use super::keys::preference::RewardHead;
use super::objective::ObjectiveOptions;
use super::objectives::grpo::GrpoOptions;
use super::objectives::off_policy_distillation::OffPolicyDistillationOptions;
use super::objectives::reward_model::RewardModelOptions;
use super::shared::common::CommonOptions;
use super::shared::data::DataOptions;
use super::shared::loss_terms::LossTerms;
use super::shared::rollouts::RolloutOptions;
use super::trainer::TrainerOptions;
use crate::TrainError;

/// What a run is told, by what it learns from. Its numbers are checked.
#[derive(Clone, Debug)]
pub enum TrainingPlan {
    /// Rollouts: [`Grpo`](crate::Grpo).
    Rollouts(Box<RolloutPlan>),
    /// Conversations, or questions: [`Sft`](crate::Sft).
    Conversations(Box<ConversationPlan>),
    /// Comparisons of answers: [`Preferences`](crate::Preferences).
    Comparisons(Box<ComparisonPlan>),
}

/// How a run learns from rollouts.
#[derive(Clone, Debug)]
pub struct RolloutPlan {
    /// Its course.
    pub common: CommonOptions,
    /// Its rollouts, and what is made of them. A teacher's are as they come: nothing is harvested, compared or tried again.
    pub options: GrpoOptions,
}

/// How a run learns from conversations.
#[derive(Clone, Debug)]
pub struct ConversationPlan {
    /// Its course.
    pub common: CommonOptions,
    /// Where they are, and how they are read.
    pub data: DataOptions,
    /// What a row is.
    pub rows: RowKind,
    /// What the loss is a mean of.
    pub reduction: LossReduction,
    /// How they share sequences.
    pub packing: Packing,
    /// How many of a teacher's likeliest tokens a place is taught, if there is a teacher.
    pub top_k: usize,
}

/// What a row of conversations is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A conversation.
    Conversations {
        /// How it is written.
        form: ConversationForm,
        /// Which of its messages are trained.
        train_on: TrainOn,
    },
    /// A comparison, as the question which answer is better.
    Questions {
        /// How it is written.
        form: ConversationForm,
    },
    /// What a teacher would say in each place of a conversation, written down before.
    SoftTargets,
}

/// How a run learns from comparisons.
#[derive(Clone, Debug)]
pub struct ComparisonPlan {
    /// Its course.
    pub common: CommonOptions,
    /// Where they are, and how they are read.
    pub data: DataOptions,
    /// What is made of two logprobs.
    pub losses: LossTerms,
    /// What the likelihood of chosen answers counts beside it.
    pub sft_weight: f64,
    /// What a token counts behind the length of its comparison's shorter answer.
    pub length_alpha: f64,
    /// What a row may be.
    pub answers: ComparedAnswers,
}

/// What a row of comparisons may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedAnswers {
    /// A better answer and a worse one.
    Pairs,
    /// That, or an answer that is good or bad by itself.
    PairsOrSingle,
}

impl TrainerOptions {
    /// What the objective's way of training is told.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn plan(&self) -> Result<TrainingPlan, TrainError> {
        self.check()?;
        Ok(match &self.objective {
            ObjectiveOptions::Grpo(options) => self.of_rollouts(options.as_ref().clone()),
            ObjectiveOptions::OnPolicyDistillation(options) => self.of_teachers(&options.rollouts),
            ObjectiveOptions::Sft(options) => {
                let rows = RowKind::Conversations { form: options.data.form(), train_on: options.train_on };
                let plan = self.of_conversations(&options.data, rows);
                let (reduction, packing) = (options.reduction, options.packing);
                TrainingPlan::Conversations(Box::new(ConversationPlan { reduction, packing, ..plan }))
            }
            ObjectiveOptions::OffPolicyDistillation(options) => self.of_a_teacher(options),
            ObjectiveOptions::RewardModel(options) => self.of_a_reward_model(options),
            ObjectiveOptions::Dpo(options) => {
                let plan = self.of_comparisons(&options.data, options.losses()?, ComparedAnswers::Pairs);
                let (sft_weight, length_alpha) = (options.likelihood_weight(), options.length_alpha);
                TrainingPlan::Comparisons(Box::new(ComparisonPlan { sft_weight, length_alpha, ..plan }))
            }
            ObjectiveOptions::Ipo(options) => {
                let loss = PreferenceLoss::Ipo { beta: options.beta };
                TrainingPlan::Comparisons(Box::new(self.of_comparisons(&options.data, loss, ComparedAnswers::Pairs)))
            }
            ObjectiveOptions::Orpo(options) => {
                let loss = PreferenceLoss::Orpo { beta: options.beta };
                TrainingPlan::Comparisons(Box::new(self.of_comparisons(&options.data, loss, ComparedAnswers::Pairs)))
            }
            ObjectiveOptions::Simpo(options) => {
                let loss = PreferenceLoss::Simpo { beta: options.beta, gamma: options.gamma };
                let plan = self.of_comparisons(&options.data, loss, ComparedAnswers::Pairs);
                let sft_weight = options.sft_weight;
                TrainingPlan::Comparisons(Box::new(ComparisonPlan { sft_weight, ..plan }))
            }
            ObjectiveOptions::Kto(options) => {
                let loss = PreferenceLoss::Kto {
                    beta: options.beta,
                    // Not known before there is a batch.
                    baseline: 0.0,
                    desirable_weight: options.desirable_weight,
                    undesirable_weight: options.undesirable_weight,
                };
                let answers = ComparedAnswers::PairsOrSingle;
                TrainingPlan::Comparisons(Box::new(self.of_comparisons(&options.data, loss, answers)))
            }
        })
    }

    fn of_rollouts(&self, options: GrpoOptions) -> TrainingPlan {
        TrainingPlan::Rollouts(Box::new(RolloutPlan { common: self.common.clone(), options }))
    }

    fn of_teachers(&self, rollouts: &RolloutOptions) -> TrainingPlan {
        self.of_rollouts(GrpoOptions { rollouts: rollouts.clone(), ..GrpoOptions::default() })
    }

    fn of_conversations(&self, data: &DataOptions, rows: RowKind) -> ConversationPlan {
        let (common, data) = (self.common.clone(), data.clone());
        ConversationPlan { common, data, rows, reduction: LossReduction::default(), packing: Packing::Off, top_k: 0 }
    }

    fn of_a_teacher(&self, options: &OffPolicyDistillationOptions) -> TrainingPlan {
        let rows = if options.reads_soft_targets() {
            RowKind::SoftTargets
        } else {
            RowKind::Conversations { form: options.data.form(), train_on: options.train_on }
        };
        let teacher = options.teacher.distillation.as_ref();
        let top_k = teacher.map_or_else(|| DistillationOptions::default().top_k, |teacher| teacher.top_k);
        let plan = self.of_conversations(&options.data, rows);
        TrainingPlan::Conversations(Box::new(ConversationPlan { reduction: options.reduction, top_k, ..plan }))
    }

    fn of_a_reward_model(&self, options: &RewardModelOptions) -> TrainingPlan {
        let RewardModelOptions { data, head, centering } = options;
        match head {
            RewardHead::Letters => {
                let rows = RowKind::Questions { form: data.form() };
                TrainingPlan::Conversations(Box::new(self.of_conversations(data, rows)))
            }
            RewardHead::Score => {
                let loss = PreferenceLoss::BradleyTerry { centering: *centering };
                TrainingPlan::Comparisons(Box::new(self.of_comparisons(data, loss, ComparedAnswers::Pairs)))
            }
        }
    }

    fn of_comparisons(
        &self,
        data: &DataOptions,
        losses: impl Into<LossTerms>,
        answers: ComparedAnswers,
    ) -> ComparisonPlan {
        let (common, data, losses) = (self.common.clone(), data.clone(), losses.into());
        ComparisonPlan { common, data, losses, sft_weight: 0.0, length_alpha: 1.0, answers }
    }
}
