-- A call changes every index that it has an entry in.

-- Whoever looks for rollouts by their status looks for those under way. A rollout that goes from one such status to the
-- next changes no index.
DROP INDEX rollouts_status;
CREATE INDEX rollouts_unfinished ON rollouts (position) WHERE end_time IS NULL;

-- The generation that an entry leads to is looked at anyway.
DROP INDEX generations_context;
DROP INDEX generations_messages;
CREATE INDEX generations_context ON generations (rollout_id, attempt_id, context_length, context_hash);
CREATE INDEX generations_messages ON generations (rollout_id, attempt_id, messages_length, messages_hash)
WHERE messages_length IS NOT NULL;

-- Whoever starts a rollout looks for the latest resources.
CREATE INDEX resources_latest ON resources (update_time, position);
