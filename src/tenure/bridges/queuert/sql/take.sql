-- take: lease due rows of these types ($1, with the seconds of their leases in $2) to a worker ($3), one for each job id in $4.
-- The earliest come first. Rows that another worker is just taking are skipped; the spare candidates make up for them.
-- Each type is read by its index, because one sort over all types would read everything that waits.
WITH served AS (
    SELECT * FROM unnest($1::text[], $2::float8[]) AS s(type_name, lease)
), candidates AS (
    SELECT due.id, due.scheduled_at
    FROM served
    CROSS JOIN LATERAL (
        SELECT j.id, j.scheduled_at
        FROM queuert.job AS j
        WHERE j.type_name = served.type_name AND j.status = 'pending' AND j.scheduled_at <= now()
        ORDER BY j.scheduled_at
        LIMIT cardinality($4::text[]) + 200
    ) AS due
    ORDER BY due.scheduled_at
    LIMIT cardinality($4::text[]) + 200
), picked AS (
    SELECT j.id, j.scheduled_at
    FROM candidates
    JOIN queuert.job AS j ON j.id = candidates.id
    WHERE j.status = 'pending' AND j.scheduled_at <= now()
    ORDER BY candidates.scheduled_at, j.id
    LIMIT cardinality($4::text[])
    FOR UPDATE OF j SKIP LOCKED
), numbered AS (
    SELECT id, row_number() OVER (ORDER BY scheduled_at, id) AS number FROM picked
), taken AS (
    UPDATE queuert.job AS j
    SET status = 'running', attempt = j.attempt + 1,
        leased_by = 'tenure:' || $3::text || ':' || ($4::text[])[numbered.number],
        leased_until = now() + served.lease * interval '1 second'
    FROM numbered, served
    WHERE j.id = numbered.id AND served.type_name = j.type_name
    RETURNING j.id, j.type_name, j.leased_by, j.attempt, j.input
)
SELECT taken.leased_by, taken.type_name,
-- include: entry
FROM taken
ORDER BY right(taken.leased_by, 36)
