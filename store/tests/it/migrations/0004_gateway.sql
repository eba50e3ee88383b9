-- What version 4 adds. That ro-done has finished is noted by the migration itself.
INSERT INTO gateway_rollouts (
    rollout_id, local_config, k8s_config, k8s_job_name, last_attempt_id, error_message, version, updated_at
) VALUES ('ro-done', '{"agent_class":"a.B"}', NULL, NULL, 'at-2', 'none', 3, 131.0);
