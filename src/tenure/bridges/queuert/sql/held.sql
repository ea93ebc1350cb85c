-- held: lock the rows of these jobs that we still hold, as a part of other statements; $1 are our types, $2 the ids of jobs.
-- In order of id, because a renewal and an end may want the same rows. A row that was reaped, or has ended, is not among them.
held AS MATERIALIZED (
    SELECT j.id, right(j.leased_by, 36) AS job_id
    FROM queuert.job AS j
    WHERE j.type_name = ANY($1::text[]) AND j.status = 'running' AND j.leased_until IS NOT NULL
      AND j.leased_by ~ '^tenure(-returning)?:.*:[0-9a-f-]{36}$' AND right(j.leased_by, 36) = ANY($2::text[])
    ORDER BY j.id
    FOR UPDATE
)
