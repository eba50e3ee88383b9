-- Spans of version 1 on PostgreSQL, where `body` is the whole span.
INSERT INTO spans (
    rollout_id, attempt_id, span_id, sequence_id, trace_id, parent_id, name, start_time, end_time, body
) VALUES
(
    'ro-done', 'at-2', '00000000000000a1', 1, '0af7651916cd43dd8448eb211c80319c',
    NULL, 'openai.chat.completion', 121.0, 122.0,
    '{"rollout_id":"ro-done","attempt_id":"at-2","sequence_id":1,"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"00000000000000a1","parent_id":null,"name":"openai.chat.completion","status":{"status_code":"OK","description":null},"attributes":{"gen_ai.response.id":"g-a"},"events":[],"links":[],"start_time":121.0,"end_time":122.0,"context":null,"parent":null,"resource":{"attributes":{},"schema_url":""}}'
),
(
    'ro-done', 'at-2', '00000000000000a2', 2, '0af7651916cd43dd8448eb211c80319c',
    NULL, 'openai.chat.completion', 123.0, 124.0,
    '{"rollout_id":"ro-done","attempt_id":"at-2","sequence_id":2,"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"00000000000000a2","parent_id":null,"name":"openai.chat.completion","status":{"status_code":"OK","description":null},"attributes":{"gen_ai.response.id":"g-b"},"events":[],"links":[],"start_time":123.0,"end_time":124.0,"context":null,"parent":null,"resource":{"attributes":{},"schema_url":""}}'
),
(
    'ro-done', 'at-2', '00000000000000a3', 3, '1af7651916cd43dd8448eb211c80319c',
    '00000000000000a2', 'it''s', NULL, 1795256016.667009,
    '{"rollout_id":"ro-done","attempt_id":"at-2","sequence_id":3,"trace_id":"1af7651916cd43dd8448eb211c80319c","span_id":"00000000000000a3","parent_id":"00000000000000a2","name":"it''s","status":{"status_code":"ERROR","description":"why"},"attributes":{"whole":2,"real":2.0,"list":[1,2],"agentlightning.reward.0.value":0.25},"events":[{"name":"e","attributes":{},"timestamp":123.5}],"links":[],"start_time":null,"end_time":1795256016.667009,"context":null,"parent":null,"resource":{"attributes":{"service.name":"x"},"schema_url":""},"kind":"SpanKind.INTERNAL"}'
);
