//! What `fulgurite reward` is told on the command line.

use clap::Args;
use fulgurite_types::{Reward, RewardGiver};

use crate::query::arguments::StoreArguments;

/// `fulgurite reward`.
#[derive(Debug, Args)]
pub struct RewardArguments {
    /// The rollout, by its id or by the name of the session that it records
    #[arg(value_name = "ROLLOUT|SESSION")]
    pub rollout: String,
    /// What it earned: a finite number
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: String,
    /// Server that recorded it; its admin key, if it has one, is taken from FULGURITE_ADMIN_KEY. Without --store, --run and
    /// --config http://127.0.0.1:4747 [env: FULGURITE_SERVER]
    #[arg(long, value_name = "URL", conflicts_with_all = ["store", "run", "config"])]
    pub server: Option<String>,
    /// The store itself, while no server has it.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Name of the reward; a later one of the same name replaces it
    #[arg(long, value_name = "NAME", default_value = Reward::DEFAULT_NAME)]
    pub name: String,
    /// A part of it, for metrics and filters (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub component: Vec<String>,
    /// This attempt, not the latest
    #[arg(long, value_name = "ID", conflicts_with = "generation")]
    pub attempt: Option<String>,
    /// One model call, not the attempt as a whole
    #[arg(long, value_name = "ID")]
    pub generation: Option<String>,
    /// Who gives it: admin, person, judge, grader, agent or unknown
    #[arg(long, value_name = "GIVER", value_parser = giver)]
    pub giver: Option<RewardGiver>,
    /// Print JSON: the reward as it is recorded
    #[arg(long)]
    pub json: bool,
}

fn giver(word: &str) -> Result<RewardGiver, String> {
    RewardGiver::from_word(word).ok_or_else(|| format!("there is {}", RewardGiver::WORDS.join(", ")))
}
