-- mark_awaited: those of the new jobs in the JSON array ?1 to which somebody has an open edge, from a time before: their ids
-- have come back.
UPDATE tenure_jobs SET blocks = 1
WHERE id IN (SELECT value FROM json_each(?1) JOIN tenure_edges ON blocker = value AND open = 1)
