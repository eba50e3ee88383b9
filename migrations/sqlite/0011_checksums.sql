-- What shows that a row has changed since it was recorded, or is gone. Null in rows that were recorded before.
ALTER TABLE generations ADD COLUMN checksum INTEGER;
-- Of an attempt: how many spans and generations it has, and the sum of their digests modulo 2^60.
ALTER TABLE attempts ADD COLUMN span_count INTEGER;
ALTER TABLE attempts ADD COLUMN generation_count INTEGER;
ALTER TABLE attempts ADD COLUMN digest INTEGER;
