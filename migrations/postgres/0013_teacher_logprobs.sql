-- What teachers made of sampled tokens: little-endian f32, one for each sampled token of the generation.
CREATE TABLE teacher_logprobs (
    generation_id TEXT NOT NULL REFERENCES generations (generation_id),
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    teacher TEXT NOT NULL,
    logprobs BYTEA NOT NULL,
    PRIMARY KEY (generation_id, run_id, teacher)
);
