//! What a sweep is to do, as its directory keeps it, so that it can be gone on with.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::checks;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::overrides::Override;
use fulgurite_config::setting_key::SettingKey;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::arms::{self, Arm, SweptKey};
use crate::records;

/// Name of the file in a sweep's directory that says what it is of.
pub const PLAN_FILE: &str = "sweep.json";

/// A sweep that is requested.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    /// The config file.
    pub config: PathBuf,
    /// Keys with their values, of which every combination is an arm.
    pub keys: Vec<SweptKey>,
    /// A file with arms one by one, in place of `keys`.
    pub list: Option<PathBuf>,
    /// Seeds of every arm; the config's if there are none.
    pub seeds: Vec<u64>,
    /// What every arm has in place of the config's values.
    pub overrides: Vec<Override>,
    /// Whether hopeless arms are stopped.
    pub stop_early: bool,
    /// The agent in place of the config's; empty for that one.
    pub agent: Vec<String>,
}

/// A sweep: arms, each of which is run with every seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// The config file.
    pub config: PathBuf,
    /// What every arm has in place of the config's values.
    pub set: Vec<(SettingKey, toml::Value)>,
    /// The agent in place of the config's; empty for that one.
    pub agent: Vec<String>,
    /// Whether hopeless arms are stopped.
    pub stop_early: bool,
    /// Seeds of every arm.
    pub seeds: Vec<u64>,
    /// The arms.
    pub arms: Vec<Arm>,
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepRun {
    /// Place of its arm in the plan.
    pub arm: usize,
    /// Its seed.
    pub seed: u64,
    /// Name of its directory in the sweep's, which is its run id.
    pub name: String,
}

impl SweepPlan {
    /// The plan of what is requested.
    ///
    /// # Errors
    /// For arms that cannot be read or are there twice, and for seeds that are.
    pub fn of(request: &SweepRequest) -> Result<Self> {
        let arms = match &request.list {
            Some(file) => arms::of_list(file)?,
            None => arms::of_grid(&request.keys)?,
        };
        let config = std::path::absolute(&request.config).context("the working directory is gone")?;
        let mut seeds = request.seeds.clone();
        if seeds.is_empty() {
            seeds.push(LoadedConfig::read_with(Some(&config), &request.overrides)?.config.run.seed);
        }
        if let Some(twice) = seeds.iter().enumerate().find_map(|(at, seed)| seeds[..at].contains(seed).then_some(seed))
        {
            bail!("--seeds has {twice} twice");
        }
        Ok(Self {
            config,
            set: request.overrides.iter().map(|one| (one.key.clone(), one.value.clone())).collect(),
            agent: request.agent.clone(),
            stop_early: request.stop_early,
            seeds,
            arms,
        })
    }

    /// The plan of the sweep in a directory; `None` if it holds none.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(PLAN_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        serde_json::from_str(&text).map(Some).with_context(|| path.display().to_string())
    }

    /// The runs of a sweep that have been started, if the directory is one's.
    ///
    /// # Errors
    ///
    /// A plan that cannot be read.
    pub fn started_runs(directory: &Path) -> Result<Option<Vec<PathBuf>>> {
        let Some(plan) = Self::read(directory)? else { return Ok(None) };
        let runs = plan.runs().into_iter().map(|run| directory.join(run.name));
        Ok(Some(runs.filter(|run| records::is_run(run)).collect()))
    }

    /// Writes the plan into the sweep's directory.
    pub fn write(&self, directory: &Path) -> Result<()> {
        records::write_whole(&directory.join(PLAN_FILE), &format!("{:#}\n", json!(self)))
    }

    /// Every run, an arm's beside each other.
    pub fn runs(&self) -> Vec<SweepRun> {
        let of_arm = |(arm, Arm { name, .. }): (usize, &Arm)| {
            let run = |seed: &u64| SweepRun { arm, seed: *seed, name: format!("{name}-seed-{seed}") };
            self.seeds.iter().map(run).collect::<Vec<_>>()
        };
        self.arms.iter().enumerate().flat_map(of_arm).collect()
    }

    /// What `train` is told in place of the config's values for a run of this arm.
    pub fn overrides(&self, arm: usize) -> Vec<Override> {
        let set = self.set.iter().map(|(key, value)| Override { key: key.clone(), value: value.clone() });
        set.chain(self.arms[arm].overrides()).collect()
    }

    /// The config that a run has, as `train` will read it.
    pub fn config_of(&self, run: &SweepRun) -> Result<LoadedConfig> {
        let mut loaded = LoadedConfig::read_with(Some(&self.config), &self.overrides(run.arm))?;
        loaded.config.run.seed = run.seed;
        loaded.config.runner.take_agent(&self.agent);
        Ok(loaded)
    }

    /// The keys whose values differ between arms, or that some have, in the order in which they are told.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for (key, _) in self.arms.iter().flat_map(|arm| &arm.overrides) {
            let key = key.to_string();
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Looks at every run's config, so that a mistake costs seconds and not a night.
    pub fn check(&self) -> Result<()> {
        for run in self.runs() {
            self.check_run(&run).with_context(|| format!("arm {}", self.arms[run.arm].name))?;
        }
        Ok(())
    }

    fn check_run(&self, run: &SweepRun) -> Result<()> {
        let loaded = self.config_of(run)?;
        checks::check_config(&loaded)?;
        let config = &loaded.config;
        if config.store.url.as_deref().is_some_and(|url| url.starts_with("sqlite:")) {
            bail!("[store] url is one SQLite file for all runs: leave it out, so that each run has its own");
        }
        if !config.runner.runs_agents() && !config.trainer.objective.name().learns_from_data() {
            bail!("a sweep runs its agents itself: [runner] command is missing");
        }
        if self.stop_early && config.trainer.common.max_steps.is_none() {
            bail!("--stop-early compares at a share of the updates, which [trainer] max_steps must tell");
        }
        Ok(())
    }

    /// Updates of every run at most; the least of the arms.
    pub fn max_steps(&self) -> Result<u64> {
        let mut least = u64::MAX;
        for run in self.runs().iter().filter(|run| run.seed == self.seeds[0]) {
            least = least.min(self.config_of(run)?.config.trainer.common.max_steps.unwrap_or(u64::MAX));
        }
        Ok(least)
    }
}
