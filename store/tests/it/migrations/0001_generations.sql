-- What version 1 holds beside its spans: two generations, of which one continues the other, and a run that trained one.
INSERT INTO generations (
    generation_id, rollout_id, attempt_id, span_id, parent_id, branch_reason, model, prompt_tokens, sampled_tokens,
    logprobs, sampled_length, context_length, context_hash, stop_reason, weights_versions, sampling, seed, renderer,
    tokenizer, request_digest, client_gone, defect
) VALUES
(
    'g-a', 'ro-done', 'at-2', '00000000000000a1', NULL, NULL, 'tiny', X'0100000002000000',
    X'03000000', X'000000bf', 1, 3, X'4636993d3e1da4e9d6b8f87b79e8f7c6', 'stop_token',
    '[{"version":3,"first_token":0}]', '{"temperature":1.0}', -1, 'template', 'sha256:0', 'digest-a', 0, NULL
),
(
    'g-b', 'ro-done', 'at-2', '00000000000000a2', 'g-a', 'edited_history', 'tiny', X'04000000',
    X'0500000006000000', NULL, 2, 6, X'90d856b7ecac90c26898af8a46404297', 'length',
    '[{"version":3,"first_token":0},{"version":4,"first_token":1}]', '{}', 7, 'template', 'sha256:0', 'digest-b', 1,
    'non_finite_logprobs'
);

INSERT INTO runs (run_id, name, config, seed, start_time) VALUES ('run-1', 'a run', '{"a":1.5}', -1, 80.0);

INSERT INTO steps (run_id, step, time, metrics, weights_version) VALUES ('run-1', 1, 140.0, '{"reward":0.5}', 4);

INSERT INTO checkpoints (run_id, step, directory, state) VALUES ('run-1', 1, 'step-1', '{"cursor":1}');

INSERT INTO generation_uses (run_id, generation_id, cause, step, tokens) VALUES ('run-1', 'g-a', 'trained', 1, 1);
