-- What servers on one database must share and nobody else may know: it is in no listing and in no export.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    secret BLOB NOT NULL
);
