-- Updates that a run may make before it waits for leave to make more; without it, as many as its config says.
ALTER TABLE runs ADD COLUMN allowed_steps BIGINT;
