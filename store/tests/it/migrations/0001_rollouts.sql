-- What version 1 holds before its spans: one rollout that succeeded at its second attempt, one that waits.
INSERT INTO rollouts (
    rollout_id, input, start_time, end_time, mode, resources_id, status, config, metadata, run_id, step, queue_position
) VALUES
(
    'ro-done', '{"question":"1 + 1"}', 100.25, 130.5, 'train', 'rs-one', 'succeeded',
    '{"timeout_seconds":60.0,"unresponsive_seconds":null,"max_attempts":2,"retry_condition":["failed"]}',
    '{"run_id":"run-1","step":1,"kept":true}', 'run-1', 1, NULL
),
(
    'ro-waits', '"a\u0000b"', 101.0, NULL, NULL, NULL, 'queuing',
    '{"timeout_seconds":null,"unresponsive_seconds":null,"max_attempts":1,"retry_condition":[]}', NULL, NULL, NULL, 1
);

INSERT INTO attempts (
    rollout_id, attempt_id, sequence_id, start_time, end_time, status, worker_id, last_heartbeat_time, metadata
) VALUES
('ro-done', 'at-1', 1, 110.0, 115.0, 'failed', 'w-1', NULL, NULL),
('ro-done', 'at-2', 2, 120.0, 130.5, 'succeeded', 'w-1', 129.0, '{"try":2}');

INSERT INTO sequence_counters (rollout_id, value) VALUES ('ro-done', 3), ('ro-not-yet', 7);

INSERT INTO resources (resources_id, create_time, update_time, version, resources) VALUES
(
    'rs-one', 90.0, 95.0, 2,
    '{"llm":{"resource_type":"llm","endpoint":"http://127.0.0.1","model":"tiny","api_key":null,"sampling_parameters":{}}}'
);

INSERT INTO workers (
    worker_id, status, heartbeat_stats, last_heartbeat_time, last_dequeue_time, last_busy_time, last_idle_time,
    current_rollout_id, current_attempt_id
) VALUES ('w-1', 'idle', '{"cpu":0.5}', 129.0, 120.0, 120.0, 130.5, NULL, NULL);
