-- Times are seconds since the Unix epoch. JSON is kept as text. `position` is the order of insertion.

CREATE TABLE rollouts (
    position INTEGER PRIMARY KEY,
    rollout_id TEXT NOT NULL UNIQUE,
    input TEXT NOT NULL,
    start_time REAL NOT NULL,
    end_time REAL,
    mode TEXT CHECK (mode IN ('train', 'val', 'test')),
    resources_id TEXT,
    status TEXT NOT NULL CHECK (
        status IN ('queuing', 'preparing', 'running', 'failed', 'succeeded', 'cancelled', 'requeuing')
    ),
    config TEXT NOT NULL,
    metadata TEXT,
    -- Taken out of `metadata`, so that a run's rollouts are found by index.
    run_id TEXT,
    step INTEGER,
    -- Place in the queue: set exactly while the rollout is queuing or requeuing.
    queue_position INTEGER,
    CHECK ((queue_position IS NOT NULL) = (status IN ('queuing', 'requeuing'))),
    CHECK ((end_time IS NOT NULL) = (status IN ('failed', 'succeeded', 'cancelled')))
);

CREATE UNIQUE INDEX rollouts_queue ON rollouts (queue_position) WHERE queue_position IS NOT NULL;
CREATE INDEX rollouts_run ON rollouts (run_id, step) WHERE run_id IS NOT NULL;
CREATE INDEX rollouts_status ON rollouts (status);

CREATE TABLE attempts (
    rollout_id TEXT NOT NULL REFERENCES rollouts (rollout_id),
    attempt_id TEXT NOT NULL,
    sequence_id INTEGER NOT NULL CHECK (sequence_id >= 1),
    start_time REAL NOT NULL,
    end_time REAL,
    status TEXT NOT NULL CHECK (
        status IN ('preparing', 'running', 'failed', 'succeeded', 'unresponsive', 'timeout')
    ),
    worker_id TEXT,
    last_heartbeat_time REAL,
    metadata TEXT,
    PRIMARY KEY (rollout_id, attempt_id),
    UNIQUE (rollout_id, sequence_id)
);

CREATE INDEX attempts_worker ON attempts (worker_id) WHERE worker_id IS NOT NULL;

-- No reference to `rollouts`: a sequence id may be asked for before the rollout is known.
CREATE TABLE sequence_counters (
    rollout_id TEXT PRIMARY KEY,
    value INTEGER NOT NULL
);

CREATE TABLE spans (
    position INTEGER PRIMARY KEY,
    rollout_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    span_id TEXT NOT NULL,
    sequence_id INTEGER NOT NULL,
    trace_id TEXT NOT NULL,
    parent_id TEXT,
    name TEXT NOT NULL,
    start_time REAL,
    end_time REAL,
    -- Everything else, as one object: status, attributes, events, links, context, parent, resource, unknown keys.
    body TEXT NOT NULL,
    UNIQUE (rollout_id, attempt_id, span_id),
    FOREIGN KEY (rollout_id, attempt_id) REFERENCES attempts (rollout_id, attempt_id)
);

CREATE TABLE generations (
    position INTEGER PRIMARY KEY,
    generation_id TEXT NOT NULL UNIQUE,
    rollout_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    span_id TEXT NOT NULL,
    -- The generation of the same attempt whose prompt and sampled tokens this prompt begins with.
    parent_id TEXT REFERENCES generations (generation_id),
    branch_reason TEXT,
    model TEXT NOT NULL,
    -- Token ids are little-endian u32, logprobs little-endian f32. `prompt_tokens` leaves out what the parent holds.
    prompt_tokens BLOB NOT NULL,
    sampled_tokens BLOB NOT NULL,
    logprobs BLOB,
    sampled_length INTEGER NOT NULL,
    -- Tokens of the whole prompt and of the answer, and the first 16 bytes of the SHA-256 of their packed ids.
    context_length INTEGER NOT NULL,
    context_hash BLOB NOT NULL,
    stop_reason TEXT NOT NULL,
    weights_versions TEXT NOT NULL,
    sampling TEXT NOT NULL,
    -- The 64 bits of an unsigned number.
    seed INTEGER NOT NULL,
    renderer TEXT NOT NULL,
    tokenizer TEXT NOT NULL,
    request_digest TEXT NOT NULL,
    client_gone INTEGER NOT NULL CHECK (client_gone IN (0, 1)),
    -- Why it must not be trained.
    defect TEXT,
    CHECK (length(sampled_tokens) = 4 * sampled_length),
    CHECK (logprobs IS NULL OR length(logprobs) = length(sampled_tokens)),
    UNIQUE (rollout_id, attempt_id, span_id),
    FOREIGN KEY (rollout_id, attempt_id, span_id) REFERENCES spans (rollout_id, attempt_id, span_id)
);

-- Holds everything that finding a parent takes, so that no blob is read for it.
CREATE INDEX generations_context
ON generations (rollout_id, attempt_id, context_length, context_hash, generation_id);
CREATE INDEX generations_request ON generations (request_digest);

CREATE TABLE resources (
    position INTEGER PRIMARY KEY,
    resources_id TEXT NOT NULL UNIQUE,
    create_time REAL NOT NULL,
    update_time REAL NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    resources TEXT NOT NULL
);

CREATE TABLE workers (
    position INTEGER PRIMARY KEY,
    worker_id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL CHECK (status IN ('idle', 'busy', 'unknown')),
    heartbeat_stats TEXT,
    last_heartbeat_time REAL,
    last_dequeue_time REAL,
    last_busy_time REAL,
    last_idle_time REAL,
    current_rollout_id TEXT,
    current_attempt_id TEXT
);

CREATE TABLE runs (
    position INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    config TEXT NOT NULL,
    seed INTEGER NOT NULL,
    start_time REAL NOT NULL
);

CREATE TABLE steps (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    step INTEGER NOT NULL,
    time REAL NOT NULL,
    metrics TEXT NOT NULL,
    weights_version INTEGER NOT NULL,
    PRIMARY KEY (run_id, step)
);

CREATE TABLE checkpoints (
    run_id TEXT NOT NULL,
    step INTEGER NOT NULL,
    directory TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (run_id, step),
    FOREIGN KEY (run_id, step) REFERENCES steps (run_id, step)
);

-- What a run made of sampled tokens. `step` has no reference, because a use outlives a step that is undone.
CREATE TABLE generation_uses (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    generation_id TEXT NOT NULL REFERENCES generations (generation_id),
    cause TEXT NOT NULL,
    step INTEGER,
    tokens INTEGER NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (run_id, generation_id, cause)
);
