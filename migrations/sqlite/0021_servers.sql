-- Servers that have this store open, and those that were killed: one that shuts down in order removes its row.
CREATE TABLE servers (
    server_id INTEGER NOT NULL PRIMARY KEY,
    start_time REAL NOT NULL
);
-- The server that recorded a call, or that gave its answer again last. Null of calls from before, and of archives.
ALTER TABLE generations ADD COLUMN server_id INTEGER;
