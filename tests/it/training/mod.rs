mod daemon;
mod harvest;
mod objectives;
mod policy_runs;
mod resumption;
mod run;
mod sft;
mod sft_sources;
