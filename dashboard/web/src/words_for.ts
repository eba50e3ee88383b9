// What the words of the record mean, for people.

/** Why a call does not continue the latest recorded call of its attempt. */
const SEAMS: Record<string, string> = {
  first_turn: "begins a conversation",
  request_repeated: "the same request again",
  other_branch: "continues an earlier call: conversations take turns, or the client went back",
  truncated: "messages that had been there are gone: the history was cut or compacted",
  system_changed: "the system message changed",
  tools_changed: "other tools are declared, or in another order",
  beside_tools: "asked beside the task, without its tools, such as for a title",
  history_rewritten: "a message of the history changed: it was compacted or edited",
  renderer_cannot_continue: "the chat template cannot write what follows without what comes before",
  reasoning_dropped: "the template leaves earlier reasoning out",
  calls_respelled: "the template spells tool calls in another way than they were sampled",
  retokenised: "the same text is cut into other tokens than were sampled",
  rendered_otherwise: "the template writes the end of the turn, or something else of it, in another way",
  upstream: "passed on to an upstream, whose tokens are not known",
};

/** Reasons after which a conversation goes on, although its tokens begin anew. */
const SHORTER = new Set(["truncated", "history_rewritten"]);

export const seamWords = (reason: string) => SEAMS[reason] ?? reason.replaceAll("_", " ");
export const isCompaction = (reason: string | null | undefined) => !!reason && SHORTER.has(reason);

/** Why sampled tokens were not trained. */
const CAUSES: Record<string, string> = {
  trained: "trained",
  upstream: "passed on to an upstream: weights and tokens are not known",
  client_gone: "the client hung up before it had the whole answer",
  broken_off: "the sampler failed in the middle of the answer",
  no_sampled_tokens: "no token was sampled",
  empty_prompt: "nothing stood before the first sampled token",
  no_logprobs: "not one finite logprob for each sampled token",
  non_finite_logprobs: "a logprob was not finite",
  auxiliary: "made beside the task, such as for a title",
  defective: "the record is marked as defective",
  unknown_weights: "sampled from weights that the run cannot name",
  modified_distribution: "sampled at another temperature than 1, or cut off by top-p or top-k",
  unattributed: "of no rollout that the trainer started",
  evaluation: "the rollout was an evaluation",
  unfinished_attempt: "the attempt was still running",
  failed_attempt: "the attempt failed",
  superseded_attempt: "a later attempt counts instead",
  reward_out_of_bounds: "the reward was out of bounds",
  reward_too_large: "the reward was too large",
  too_few_members: "failures left too few rollouts of the group",
  unknown_tokenizer: "made with another tokenizer than the learner's",
  other_model: "sampled by another model than the one that is trained",
  constant_group: "every rollout of the group earned the same",
  outside_difficulty: "the task was easier or harder than the run learns from",
  stale_weights: "sampled from weights older than the limit allows",
  trained_before: "another run of the store has trained it",
  after_last_step: "sampled for a step that the run did not make",
  after_last_checkpoint: "the update was lost with the process",
  masked: "left out by the importance mask: its ratio was outside",
  clipped: "held by the bounds of the loss: its ratio was outside",
  other: "not accounted for yet",
};

export const causeWords = (cause: string) => CAUSES[cause] ?? cause.replaceAll("_", " ");
