-- count_total: Add 1 to the total `_what` of `_queue`, and of `_worker` if it is registered.
CREATE OR REPLACE FUNCTION count_total(_what text, _queue text, _worker text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tallies (queue, worker, what, number)
    SELECT _queue, NULL, 'total_' || _what, 1
    UNION ALL
    SELECT '', generation, 'total_' || _what, 1 FROM workers WHERE id = _worker;
END
$$;
