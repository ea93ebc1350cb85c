-- update_inbox_flag: note whether something is left in the inbox of the queue ?1.
UPDATE tenure_queues SET inbox = EXISTS (SELECT 1 FROM tenure_inbox WHERE queue = ?1) WHERE name = ?1 AND inbox
