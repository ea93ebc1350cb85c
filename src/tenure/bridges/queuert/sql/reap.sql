-- reap: put rows of these types ($1) back in line whose lease has run out, up to 500. Not those of our workers, which the sweep adopts.
WITH expired AS (
    SELECT j.id
    FROM queuert.job AS j
    WHERE j.type_name = ANY($1::text[]) AND j.status = 'running' AND j.leased_until < now()
      AND coalesce(j.leased_by, '') !~ '^tenure(-returning)?:.*:[0-9a-f-]{36}$'
    ORDER BY j.leased_until
    LIMIT 500
    FOR UPDATE SKIP LOCKED
)
UPDATE queuert.job AS j
SET status = 'pending', leased_by = NULL, leased_until = NULL
FROM expired
WHERE j.id = expired.id
RETURNING j.id::text, j.type_name
