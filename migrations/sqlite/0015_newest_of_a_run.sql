-- The newest rollouts of a run, or of none, without reading the others. No call writes into these.
CREATE INDEX rollouts_run_newest ON rollouts (run_id, position) WHERE run_id IS NOT NULL;
CREATE INDEX rollouts_of_no_run ON rollouts (position) WHERE run_id IS NULL;
