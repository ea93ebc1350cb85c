-- fold: make few rows of many in `tallies`, leaving every sum as it is. Rows that another one folds are left to it, and totals of
-- workers that are gone go.
CREATE OR REPLACE FUNCTION fold() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH chosen AS (
        SELECT ctid AS row FROM tallies LIMIT 20000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM tallies WHERE ctid = ANY (ARRAY(SELECT row FROM chosen)) RETURNING queue, worker, what, number
    )
    INSERT INTO tallies (queue, worker, what, number)
    SELECT queue, worker, what, sum(number) FROM gone
    WHERE worker IS NULL OR worker IN (SELECT generation FROM workers)
    GROUP BY queue, worker, what;
END
$$;
