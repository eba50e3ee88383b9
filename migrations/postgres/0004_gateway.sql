-- What Agent-lightning's 1.0 API (its gateway) tells of a rollout and no other table holds. A rollout that it has
-- neither made nor changed has no row.
CREATE TABLE gateway_rollouts (
    rollout_id TEXT PRIMARY KEY REFERENCES rollouts (rollout_id),
    -- How a controller starts its agent, as JSON: as a process, or as a job of Kubernetes.
    local_config TEXT,
    k8s_config TEXT,
    k8s_job_name TEXT,
    last_attempt_id TEXT,
    error_message TEXT,
    version BIGINT NOT NULL CHECK (version >= 1),
    updated_at DOUBLE PRECISION NOT NULL
);

-- Rollouts in the order in which they finished for the first time. A deleted one leaves its place empty, so that
-- whoever has read up to a place goes on from there.
CREATE TABLE completions (
    position BIGINT PRIMARY KEY,
    rollout_id TEXT UNIQUE
);

INSERT INTO completions (position, rollout_id)
SELECT ROW_NUMBER() OVER (ORDER BY end_time, position), rollout_id FROM rollouts WHERE end_time IS NOT NULL;
