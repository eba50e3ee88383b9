-- Spans of version 1 on SQLite, where `body` is what has no columns.
INSERT INTO spans (
    rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name, start_time, end_time, body
) VALUES
(
    'ro-done', 'at-2', '00000000000000a1', 1, '0af7651916cd43dd8448eb211c80319c',
    NULL, 'openai.chat.completion', 121.0, 122.0,
    '{"status":{"status_code":"OK","description":null},"attributes":{"gen_ai.response.id":"g-a"},"events":[],"links":[],"context":null,"parent":null,"resource":{"attributes":{},"schema_url":""},"extra":{}}'
),
(
    'ro-done', 'at-2', '00000000000000a2', 2, '0af7651916cd43dd8448eb211c80319c',
    NULL, 'openai.chat.completion', 123.0, 124.0,
    '{"status":{"status_code":"OK","description":null},"attributes":{"gen_ai.response.id":"g-b"},"events":[],"links":[],"context":null,"parent":null,"resource":{"attributes":{},"schema_url":""},"extra":{}}'
),
(
    'ro-done', 'at-2', '00000000000000a3', 3, '1af7651916cd43dd8448eb211c80319c',
    '00000000000000a2', 'it''s', NULL, 1795256016.667009,
    '{"status":{"status_code":"ERROR","description":"why"},"attributes":{"whole":2,"real":2.0,"list":[1,2],"agentlightning.reward.0.value":0.25},"events":[{"name":"e","attributes":{},"timestamp":123.5}],"links":[],"context":null,"parent":null,"resource":{"attributes":{"service.name":"x"},"schema_url":""},"extra":{"kind":"SpanKind.INTERNAL"}}'
);
