-- `spans.body` becomes the whole span as it is given back, so that reading a page of spans need not put it together.
-- Numbers are written with the 17 digits that name a float exactly.
UPDATE spans
SET body = '{"rollout_id":' || json_quote(rollout_id)
    || ',"attempt_id":' || json_quote(attempt_id)
    || ',"sequence_id":' || sequence_id
    || ',"trace_id":' || json_quote(trace_id)
    || ',"span_id":' || json_quote(span_id)
    || ',"parent_id":' || COALESCE(json_quote(parent_id), 'null')
    || ',"name":' || json_quote(name)
    || ',"status":' || (body -> '$.status')
    || ',"attributes":' || (body -> '$.attributes')
    || ',"events":' || (body -> '$.events')
    || ',"links":' || (body -> '$.links')
    || ',"start_time":' || CASE WHEN start_time IS NULL THEN 'null' ELSE printf('%!.17g', start_time) END
    || ',"end_time":' || CASE WHEN end_time IS NULL THEN 'null' ELSE printf('%!.17g', end_time) END
    || ',"context":' || (body -> '$.context')
    || ',"parent":' || (body -> '$.parent')
    || ',"resource":' || (body -> '$.resource')
    || CASE body -> '$.extra' WHEN '{}' THEN '' ELSE ',' || substr(body -> '$.extra', 2, length(body -> '$.extra') - 2) END
    || '}';
