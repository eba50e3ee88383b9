//! What the start of a run beside a server does with the weights that are behind its model there.

/// What is behind the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing was published: it has what the server was started with.
    Nothing,
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

/// The model as the server and the config have it, whatever is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedBase {
    /// The files that the server was started with.
    pub files: ServedFiles,
    /// What the run puts there.
    pub learns: Learns,
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

/// What a run puts behind the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// An adapter over the files that the server was started with.
    Adapter,
    /// Whole weights.
    AllWeights,
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
    /// Whether others call the model.
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
    TooFar {
        /// Updates between the two.
        distance: u64,
        /// As many as there may be.
        most: u64,
    },
    /// A person took the model back.
    RolledBack,
    /// They are not the resumed run's.
    OfOthers,
}

/// Decides what a start does: `docs/how/weights.md` has the table.
pub fn decide(base: ServedBase, behind: Behind, flag: StartFlag, leeway: Leeway) -> StartDecision {
    use StartDecision::{Keep, Refuse, Replace};
    if base.files == ServedFiles::Others && needs_files(base.learns, behind) {
        return Refuse(Refusal::OtherFiles);
    }
    match (behind, flag) {
        (Behind::Nothing, _) => Keep,
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

/// Whether a start needs the server's files to be those of the config: an adapter is over them, and without a publication they
/// are what a run begins with. Whole weights take the place of whatever was published.
fn needs_files(learns: Learns, behind: Behind) -> bool {
    learns == Learns::Adapter || behind == Behind::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: [StartFlag; 4] =
        [StartFlag::New, StartFlag::StartOver, StartFlag::Resume, StartFlag::ResumeAndReplace];
    const OF_CONFIG: ServedBase = ServedBase { files: ServedFiles::OfConfig, learns: Learns::AllWeights };

    #[test]
    fn a_start_replaces_what_is_behind_a_model_only_if_it_is_told_to() {
        use Behind::{Nothing, Others, Own, RolledBack};
        use StartDecision::{Keep, Refuse, Replace};
        let harvest = Leeway { max_staleness: 4, callers: Callers::Others };
        let in_use = Refuse(Refusal::InUse);
        let too_far = Refuse(Refusal::TooFar { distance: 5, most: 4 });
        for (behind, expected) in [
            (Nothing, [Keep; 4]),
            (Own { distance: 0 }, [in_use, Replace, Keep, Replace]),
            (Own { distance: 4 }, [in_use, Replace, Keep, Replace]),
            (Own { distance: 5 }, [in_use, Replace, too_far, Replace]),
            (RolledBack, [in_use, Replace, Refuse(Refusal::RolledBack), Replace]),
            (Others, [in_use, Replace, Refuse(Refusal::OfOthers), Replace]),
        ] {
            for files in [ServedFiles::OfConfig, ServedFiles::Unknown] {
                for learns in [Learns::Adapter, Learns::AllWeights] {
                    let base = ServedBase { files, learns };
                    assert_eq!(FLAGS.map(|flag| decide(base, behind, flag, harvest)), expected, "{behind:?}");
                }
            }
        }
        // A driven run whose model nobody else calls puts its checkpoint's weights back.
        let driven = |callers| Leeway { max_staleness: 0, callers };
        let resumed = |callers| decide(OF_CONFIG, Own { distance: 1 }, StartFlag::Resume, driven(callers));
        assert_eq!(resumed(Callers::RunAlone), Replace);
        assert_eq!(resumed(Callers::Others), Refuse(Refusal::TooFar { distance: 1, most: 0 }));
        let rolled_back = decide(OF_CONFIG, RolledBack, StartFlag::Resume, driven(Callers::RunAlone));
        assert_eq!(rolled_back, Refuse(Refusal::RolledBack));
    }

    #[test]
    fn other_files_at_the_server_are_refused_wherever_a_run_depends_on_them() {
        let leeway = Leeway { max_staleness: 4, callers: Callers::Others };
        let refused = |learns, behind| {
            let base = ServedBase { files: ServedFiles::Others, learns };
            FLAGS.map(|flag| decide(base, behind, flag, leeway) == StartDecision::Refuse(Refusal::OtherFiles))
        };
        assert_eq!(refused(Learns::AllWeights, Behind::Nothing), [true; 4]);
        for behind in [Behind::Own { distance: 0 }, Behind::RolledBack, Behind::Others] {
            assert_eq!(refused(Learns::Adapter, behind), [true; 4], "{behind:?}");
            // Whole weights take the place of what is there.
            assert_eq!(refused(Learns::AllWeights, behind), [false; 4], "{behind:?}");
        }
    }
}
