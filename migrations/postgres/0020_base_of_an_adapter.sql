-- The whole weights that an adapter is over, as a digest in hexadecimal digits. Null is the model that a server was started with.
ALTER TABLE publications ADD COLUMN base_id TEXT;
