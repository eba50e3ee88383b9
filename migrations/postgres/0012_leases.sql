-- Until when an attempt that was handed out waits for the first sign of life of its runner, if that promised one.
ALTER TABLE attempts ADD COLUMN lease_end DOUBLE PRECISION;
