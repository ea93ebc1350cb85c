-- look: every row of these types ($1) that a worker of ours holds, also those whose lease ran out and that none has reaped.
SELECT taken.leased_by, taken.type_name,
-- include: entry
FROM queuert.job AS taken
WHERE taken.type_name = ANY($1::text[]) AND taken.status = 'running' AND taken.leased_until IS NOT NULL
  AND taken.leased_by ~ '^tenure(-returning)?:.*:[0-9a-f-]{36}$'
ORDER BY right(taken.leased_by, 36)
