-- A call changes every index that it has an entry in. Most calls of short attempts continue no other; whoever looks for
-- those that continue a call does not look for null. Nothing is looked for by the digest of its request: what the proxy
-- compares digests with, it remembers.
DROP INDEX generations_parent;
DROP INDEX generations_messages_parent;
DROP INDEX generations_request;

CREATE INDEX generations_parent ON generations (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX generations_messages_parent ON generations (messages_parent_id) WHERE messages_parent_id IS NOT NULL;
