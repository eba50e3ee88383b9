-- Whoever takes a rollout off the queue may say what grades it. Its grader alone, and whoever holds the admin key, then
-- gives the attempt's rewards; an attempt without one is rewarded by its agent.
ALTER TABLE attempts ADD COLUMN grader TEXT;
