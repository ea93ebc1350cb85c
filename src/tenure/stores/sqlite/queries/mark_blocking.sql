-- mark_blocking: mark the jobs in the JSON array ?1 as blockers: they have edges to close when they end.
UPDATE tenure_jobs SET blocks = 1 WHERE id IN (SELECT value FROM json_each(?1))
