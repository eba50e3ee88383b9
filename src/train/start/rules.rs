//! What the start of a run beside a server does with the weights that are behind its model there.

/// What is behind the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing was published: it has what the server was started with.
    Files(ServedFiles),
    /// The run's own weights, so many updates away from its last checkpoint.
    Own {
        /// Updates between both.
        distance: u64,
    },
    /// The run's own weights, to which a person took the model back.
    RolledBack,
    /// Another run's weights, or somebody's.
    Others,
}

/// The files that a server was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedFiles {
    /// Those of the config.
    OfConfig,
    /// It is not known whether they are: the server's hosts or a service have them.
    Unknown,
    /// Others.
    Others,
}

/// What the command line says of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFlag {
    /// Nothing: a new run.
    New,
    /// `--start-over`
    StartOver,
    /// `--resume`
    Resume,
    /// `--resume --replace-weights`
    ResumeAndReplace,
}

/// Whose calls a model answers beside the run's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Nobody's.
    RunAlone,
    /// Agents that nobody tells to call.
    Others,
}

/// How far what is behind the model may be from the checkpoint that a run goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leeway {
    /// Updates that the run allows between the weights that sample and those that learn.
    pub max_staleness: u64,
    pub callers: Callers,
}

/// What the start does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartDecision {
    /// Leaves what is there until the next update.
    Keep,
    /// Puts the run's weights in its place.
    Replace,
    /// Nothing at all.
    Refuse(Refusal),
}

/// Why a run is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server was started with other files than the config names.
    OtherFiles,
    /// A new run would replace weights that somebody put there.
    InUse,
    /// A resumed run's weights are so many updates from its checkpoint, and may be as many as `most`.
    TooFar { distance: u64, most: u64 },
    /// A person took the model back.
    RolledBack,
    /// They are not the resumed run's.
    OfOthers,
}

/// Decides what a start does: `docs/how/weights.md` has the table.
pub fn decide(behind: Behind, flag: StartFlag, leeway: Leeway) -> StartDecision {
    use StartDecision::{Keep, Refuse, Replace};
    match (behind, flag) {
        (Behind::Files(ServedFiles::Others), _) => Refuse(Refusal::OtherFiles),
        (Behind::Files(ServedFiles::OfConfig | ServedFiles::Unknown), _) => Keep,
        (_, StartFlag::StartOver | StartFlag::ResumeAndReplace) => Replace,
        (_, StartFlag::New) => Refuse(Refusal::InUse),
        (Behind::RolledBack, StartFlag::Resume) => Refuse(Refusal::RolledBack),
        (Behind::Others, StartFlag::Resume) => Refuse(Refusal::OfOthers),
        (Behind::Own { distance }, StartFlag::Resume) => match leeway {
            Leeway { max_staleness, .. } if distance <= max_staleness => Keep,
            Leeway { callers: Callers::RunAlone, .. } => Replace,
            Leeway { callers: Callers::Others, max_staleness } => {
                Refuse(Refusal::TooFar { distance, most: max_staleness })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_replaces_what_is_behind_a_model_only_if_it_is_told_to() {
        use Behind::{Files, Others, Own, RolledBack};
        use StartDecision::{Keep, Refuse, Replace};
        let harvest = Leeway { max_staleness: 4, callers: Callers::Others };
        let flags = [StartFlag::New, StartFlag::StartOver, StartFlag::Resume, StartFlag::ResumeAndReplace];
        let in_use = Refuse(Refusal::InUse);
        let other_files = Refuse(Refusal::OtherFiles);
        let too_far = Refuse(Refusal::TooFar { distance: 5, most: 4 });
        for (behind, expected) in [
            (Files(ServedFiles::OfConfig), [Keep; 4]),
            (Files(ServedFiles::Unknown), [Keep; 4]),
            (Files(ServedFiles::Others), [other_files; 4]),
            (Own { distance: 0 }, [in_use, Replace, Keep, Replace]),
            (Own { distance: 4 }, [in_use, Replace, Keep, Replace]),
            (Own { distance: 5 }, [in_use, Replace, too_far, Replace]),
            (RolledBack, [in_use, Replace, Refuse(Refusal::RolledBack), Replace]),
            (Others, [in_use, Replace, Refuse(Refusal::OfOthers), Replace]),
        ] {
            assert_eq!(flags.map(|flag| decide(behind, flag, harvest)), expected, "{behind:?}");
        }
        // A driven run whose model nobody else calls puts its checkpoint's weights back.
        let driven = |callers| Leeway { max_staleness: 0, callers };
        let resumed = |callers| decide(Own { distance: 1 }, StartFlag::Resume, driven(callers));
        assert_eq!(resumed(Callers::RunAlone), Replace);
        assert_eq!(resumed(Callers::Others), Refuse(Refusal::TooFar { distance: 1, most: 0 }));
        let rolled_back = decide(RolledBack, StartFlag::Resume, driven(Callers::RunAlone));
        assert_eq!(rolled_back, Refuse(Refusal::RolledBack));
    }
}
