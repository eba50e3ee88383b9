-- Which process trains a run, and until when it has it.
CREATE TABLE run_leases (
    -- No reference: a trainer asks before it has anything of its run recorded.
    run_id TEXT NOT NULL PRIMARY KEY,
    owner_id TEXT NOT NULL,
    -- Where that process is, as JSON.
    owner TEXT NOT NULL,
    start_time DOUBLE PRECISION NOT NULL,
    end_time DOUBLE PRECISION NOT NULL
);
