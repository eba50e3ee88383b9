-- What shows that a rollout or an attempt has changed by another way than the program's. Null in rows that were recorded
-- before.
ALTER TABLE rollouts ADD COLUMN checksum BIGINT;
ALTER TABLE attempts ADD COLUMN checksum BIGINT;
-- Of `last_heartbeat_time` alone, which every call sets.
ALTER TABLE attempts ADD COLUMN heartbeat_checksum BIGINT;
-- How often reports have changed the attempt.
ALTER TABLE attempts ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
-- What the id adds to the checksum of a rollout that has these resources.
ALTER TABLE resources ADD COLUMN id_checksum BIGINT;
-- How many rows a table has, and the sum of their weights modulo 2^60.
CREATE TABLE row_totals (
    table_name TEXT PRIMARY KEY,
    row_count BIGINT NOT NULL,
    digest BIGINT NOT NULL
);
INSERT INTO row_totals SELECT 'rollouts', COUNT(*), 0 FROM rollouts;
INSERT INTO row_totals SELECT 'attempts', COUNT(*), 0 FROM attempts;

CREATE FUNCTION rollout_weight(checksum BIGINT, place BIGINT, queue_place BIGINT) RETURNS BIGINT
LANGUAGE SQL IMMUTABLE AS $$
    SELECT COALESCE(checksum, 0) + (COALESCE(checksum, 0) & 1073741823) * (place & 1073741823)
        + ((COALESCE(checksum, 0) >> 30) & 1073741823) * (COALESCE(queue_place, 0) & 1073741823)
$$;

-- The totals follow the transactions that say that they are the program's.
CREATE FUNCTION total_rollouts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change BIGINT := 0;
    weight BIGINT := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        change := change - 1;
        weight := weight - rollout_weight(OLD.checksum, OLD.position, OLD.queue_position);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        change := change + 1;
        weight := weight + rollout_weight(NEW.checksum, NEW.position, NEW.queue_position);
    END IF;
    UPDATE row_totals SET row_count = row_count + change, digest = (digest + weight) & 1152921504606846975
    WHERE table_name = 'rollouts';
    RETURN NULL;
END
$$;

CREATE FUNCTION total_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change BIGINT := 0;
    weight BIGINT := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        change := change - 1;
        weight := weight - COALESCE(OLD.checksum, 0);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        change := change + 1;
        weight := weight + COALESCE(NEW.checksum, 0);
    END IF;
    UPDATE row_totals SET row_count = row_count + change, digest = (digest + weight) & 1152921504606846975
    WHERE table_name = 'attempts';
    RETURN NULL;
END
$$;

CREATE TRIGGER rollouts_total AFTER INSERT OR DELETE OR UPDATE OF checksum, position, queue_position ON rollouts
FOR EACH ROW WHEN (current_setting('fulgurite.writes', true) = 'on') EXECUTE FUNCTION total_rollouts();
CREATE TRIGGER attempts_total AFTER INSERT OR DELETE OR UPDATE OF checksum ON attempts
FOR EACH ROW WHEN (current_setting('fulgurite.writes', true) = 'on') EXECUTE FUNCTION total_attempts();
