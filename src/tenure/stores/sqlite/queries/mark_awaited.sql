-- mark_awaited: mark those of the new jobs in the JSON array ?1 as blockers that an open edge already points to: a job of the
-- same id existed before, was removed, and has come back.
UPDATE tenure_jobs SET blocks = 1
WHERE id IN (SELECT value FROM json_each(?1) JOIN tenure_edges ON blocker = value AND open = 1)
