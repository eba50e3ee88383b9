-- Which weights a version of a model names. A version keeps its meaning for ever.
CREATE TABLE named_weights (
    model TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- A digest, in hexadecimal digits.
    weights_id TEXT NOT NULL,
    parent_id TEXT,
    -- No reference: a trainer may record its run elsewhere.
    run_id TEXT,
    step INTEGER,
    time REAL NOT NULL,
    PRIMARY KEY (model, version),
    UNIQUE (model, weights_id)
) WITHOUT ROWID;
-- What was put behind models, in order; the newest of a model is in force at every server.
CREATE TABLE publications (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- Where they are, as JSON, in the words of whoever serves the model.
    source TEXT NOT NULL,
    -- Digest of the files that were there, in hexadecimal digits; null where they could not be read.
    files_id TEXT,
    cause TEXT NOT NULL,
    time REAL NOT NULL,
    FOREIGN KEY (model, version) REFERENCES named_weights (model, version)
);
CREATE INDEX publications_of_model ON publications (model, position);
-- What each server samples from.
CREATE TABLE served_weights (
    server_id TEXT NOT NULL,
    model TEXT NOT NULL,
    url TEXT NOT NULL,
    version INTEGER,
    state TEXT NOT NULL,
    message TEXT,
    time REAL NOT NULL,
    PRIMARY KEY (server_id, model)
) WITHOUT ROWID;
-- Nobody knows which weights these are: their identity is of no digest, and like no other.
INSERT INTO named_weights (model, version, weights_id, time)
    SELECT model, version, lower(hex(randomblob(16))), 0 FROM model_weights;
INSERT INTO publications (model, version, source, cause, time)
    SELECT model, version, source, 'update', 0 FROM model_weights;
DROP TABLE model_weights;
