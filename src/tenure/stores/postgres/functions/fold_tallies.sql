-- fold_tallies: Move up to 20,000 rows from `tallies` to `counters` without changing any sum, and delete the totals of
-- workers that are not registered any more. Rows that another transaction is folding are skipped.
CREATE OR REPLACE FUNCTION fold_tallies() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH chosen AS (
        SELECT ctid AS row FROM tallies LIMIT 20000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM tallies WHERE ctid = ANY (ARRAY(SELECT row FROM chosen)) RETURNING queue, worker, what, number
    )
    INSERT INTO counters (queue, worker, what, number)
    SELECT queue, coalesce(worker, 0), what, sum(number) FROM gone
    WHERE worker IS NULL OR worker IN (SELECT generation FROM workers)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3  -- in one order, so that two calls do not deadlock
    ON CONFLICT (queue, worker, what) DO UPDATE SET number = counters.number + excluded.number;
    DELETE FROM counters WHERE worker > 0 AND worker NOT IN (SELECT generation FROM workers);
END
$$;
