-- enqueue_single: store one plain job, or raise unique_violation if its id exists.
WITH stored AS (
    INSERT INTO {schema}.jobs (
        -- include: job_columns,
        edges
    ) VALUES (
        nextval('{schema}.places'), $2, $3, $4, $5, $6, $7, {schema}.clock($1), NULL, {schema}.clock($1) + $8, $9, $10, $11, $12, $13, $14,
        0
    ) RETURNING n, expires_at
), placed AS (
    INSERT INTO {schema}.live (n, queue, task, state, priority, seq, lease, expires_at, keep, keyed)
    SELECT n, $4, $3, 'waiting', $7, n, $11, expires_at, $12, false FROM stored
), counted AS (
    INSERT INTO {schema}.tallies (queue, what, number) VALUES ($4, 'waiting', 1)
)
SELECT {schema}.wake_worker($4) WHERE EXISTS (SELECT FROM {schema}.idle)
