-- The digest of a call's messages and its answer, by which the next call of the conversation finds it if it names no
-- rollout. Null of calls that named theirs.
ALTER TABLE generations ADD COLUMN conversation_digest BYTEA;
CREATE INDEX generations_conversation ON generations (conversation_digest, position) WHERE conversation_digest IS NOT NULL;
-- Answers that were continued so, with the digest of the first request that did.
CREATE TABLE continued_generations (
    generation_id TEXT PRIMARY KEY REFERENCES generations (generation_id) ON DELETE CASCADE,
    request_digest TEXT NOT NULL
);
