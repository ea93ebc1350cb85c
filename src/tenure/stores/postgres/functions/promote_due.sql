-- promote_due: Put up to 1,000 due jobs of `_queue` in line, the earliest first. Returns how many. Jobs that another
-- transaction has locked are skipped.
CREATE OR REPLACE FUNCTION promote_due(_now float8, _queue text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _count bigint;
BEGIN
    WITH due AS MATERIALIZED (
        SELECT n FROM live
        WHERE state = 'waiting' AND run_at IS NOT NULL AND queue = _queue AND run_at <= _now
        ORDER BY run_at, seq LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT n, nextval('places') AS seq FROM due
    )
    UPDATE live SET run_at = NULL, ready_at = run_at, seq = placed.seq FROM placed WHERE live.n = ANY (ARRAY[placed.n]);
    GET DIAGNOSTICS _count = ROW_COUNT;
    IF _count > 0 THEN
        INSERT INTO tallies (queue, what, number) VALUES (_queue, 'scheduled', -_count), (_queue, 'waiting', _count);
    END IF;
    RETURN _count;
END
$$;
