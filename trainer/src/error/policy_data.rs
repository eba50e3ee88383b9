/// Why datums and logprobs do not belong together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyDataError {
    /// There must be one list of logprobs per datum.
    #[error("{logprobs} lists of logprobs for {data} datums")]
    DatumCount {
        /// Datums.
        data: usize,
        /// Lists of logprobs.
        logprobs: usize,
    },
    /// There must be one logprob per target.
    #[error("datum {datum} has {targets} targets and {logprobs} logprobs")]
    LogprobCount {
        /// Index of the datum.
        datum: usize,
        /// Its targets.
        targets: usize,
        /// Logprobs given for it.
        logprobs: usize,
    },
    /// A trained target's logprob is NaN or infinite.
    #[error("the logprob of target {target} of datum {datum} is not a finite number")]
    NotFinite {
        /// Index of the datum.
        datum: usize,
        /// Index of the target.
        target: usize,
    },
    /// Only a datum of a policy-gradient loss has sampled tokens.
    #[error("datum {datum} is a supervised one: it has no sampler logprobs")]
    Supervised {
        /// Index of the datum.
        datum: usize,
    },
}
