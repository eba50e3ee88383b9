-- Whoever deletes a generation has to look for those that continue it, and for what runs said of it.
CREATE INDEX generations_parent ON generations (parent_id);
CREATE INDEX generations_messages_parent ON generations (messages_parent_id);
CREATE INDEX generation_uses_generation ON generation_uses (generation_id);
