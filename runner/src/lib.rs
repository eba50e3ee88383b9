//! Runs agents: takes a rollout off the queue, starts the agent, reports how it ended.
