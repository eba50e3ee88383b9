-- What is written at once is whole pages: a commit costs as much as the pages that its rows and their entries in indexes
-- are on.

-- Whoever looks for rollouts by their status looks for those under way. A rollout that goes from one such status to the
-- next changes no index.
DROP INDEX rollouts_status;
CREATE INDEX rollouts_unfinished ON rollouts (position) WHERE end_time IS NULL;

-- The rows are the index.
ALTER TABLE sequence_counters RENAME TO sequence_counters_with_index;
CREATE TABLE sequence_counters (
    rollout_id TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO sequence_counters SELECT rollout_id, value FROM sequence_counters_with_index ORDER BY rollout_id;
DROP TABLE sequence_counters_with_index;

-- The generation that an entry leads to is looked at anyway.
DROP INDEX generations_context;
DROP INDEX generations_messages;
CREATE INDEX generations_context ON generations (rollout_id, attempt_id, context_length, context_hash);
CREATE INDEX generations_messages ON generations (rollout_id, attempt_id, messages_length, messages_hash)
WHERE messages_length IS NOT NULL;

-- Whoever starts a rollout looks for the latest resources.
CREATE INDEX resources_latest ON resources (update_time, position);

-- A list of more than two words is made a table of its own each time that a row is checked, which takes longer than to
-- write the row. The same is said without one; nothing that is stored changes.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(replace(sql,
    'mode IN (''train'', ''val'', ''test'')',
    'mode IN (''train'', ''val'') OR mode = ''test'''),
    'status IN (''queuing'', ''preparing'', ''running'', ''failed'', ''succeeded'', ''cancelled'', ''requeuing'')',
    'status IN (''queuing'', ''preparing'') OR status IN (''running'', ''failed'')
        OR status IN (''succeeded'', ''cancelled'') OR status = ''requeuing'''),
    '(status IN (''failed'', ''succeeded'', ''cancelled''))',
    '(status IN (''failed'', ''succeeded'') OR status = ''cancelled'')')
WHERE type = 'table' AND name = 'rollouts';
UPDATE sqlite_schema SET sql = replace(sql,
    'status IN (''preparing'', ''running'', ''failed'', ''succeeded'', ''unresponsive'', ''timeout'')',
    'status IN (''preparing'', ''running'') OR status IN (''failed'', ''succeeded'')
        OR status IN (''unresponsive'', ''timeout'')')
WHERE type = 'table' AND name = 'attempts';
PRAGMA writable_schema = RESET;
