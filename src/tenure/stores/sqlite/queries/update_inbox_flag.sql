-- update_inbox_flag: record whether the inbox of the queue ?1 still has entries.
UPDATE tenure_queues SET inbox = EXISTS (SELECT 1 FROM tenure_inbox WHERE queue = ?1) WHERE name = ?1 AND inbox
