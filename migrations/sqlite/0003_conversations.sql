-- A call's conversation: only what the generation that it is seen from does not hold. Null in all of these means that
-- the span's own attributes have it.
ALTER TABLE generations ADD COLUMN messages_parent_id TEXT REFERENCES generations (generation_id);
-- A JSON list of the prompt's messages that come after those of that generation; null in it is that one's answer.
ALTER TABLE generations ADD COLUMN messages TEXT;
-- The answer as a message, in JSON.
ALTER TABLE generations ADD COLUMN answer TEXT;
-- Number of all messages of the prompt, and the SHA-256 that stands for them.
ALTER TABLE generations ADD COLUMN messages_length INTEGER;
ALTER TABLE generations ADD COLUMN messages_hash BLOB;

CREATE INDEX generations_messages
ON generations (rollout_id, attempt_id, messages_length, messages_hash, generation_id)
WHERE messages_length IS NOT NULL;
