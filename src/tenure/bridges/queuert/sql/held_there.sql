-- held_there: which of these jobs ($2) still have their rows. It waits for no lock.
SELECT right(j.leased_by, 36)
FROM queuert.job AS j
WHERE j.type_name = ANY($1::text[]) AND j.status = 'running' AND j.leased_until IS NOT NULL
  AND j.leased_by ~ '^tenure(-returning)?:.*:[0-9a-f-]{36}$' AND right(j.leased_by, 36) = ANY($2::text[])
