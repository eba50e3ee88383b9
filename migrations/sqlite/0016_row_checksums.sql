-- What shows that a rollout or an attempt has changed by another way than the program's. Null in rows that were recorded
-- before.
ALTER TABLE rollouts ADD COLUMN checksum INTEGER;
ALTER TABLE attempts ADD COLUMN checksum INTEGER;
-- Of `last_heartbeat_time` alone, which every call sets.
ALTER TABLE attempts ADD COLUMN heartbeat_checksum INTEGER;
-- How often reports have changed the attempt.
ALTER TABLE attempts ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
-- What the id adds to the checksum of a rollout that has these resources.
ALTER TABLE resources ADD COLUMN id_checksum INTEGER;
-- How many rows a table has, and the sum of their weights modulo 2^60.
CREATE TABLE row_totals (
    table_name TEXT PRIMARY KEY,
    row_count INTEGER NOT NULL,
    digest INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO row_totals SELECT 'rollouts', COUNT(*), 0 FROM rollouts;
INSERT INTO row_totals SELECT 'attempts', COUNT(*), 0 FROM attempts;
