-- The weights that were put behind a served model last, so that a server that is started anew samples from them.
CREATE TABLE model_weights (
    model TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    -- Where they are, as JSON, in the words of whoever serves the model.
    source TEXT NOT NULL
);
