-- count_total: count once more what has happened in this queue, and through this worker if the registry knows it.
CREATE OR REPLACE FUNCTION count_total(_what text, _queue text, _worker text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tallies (queue, worker, what, number)
    SELECT _queue, NULL, 'total_' || _what, 1
    UNION ALL
    SELECT '', generation, 'total_' || _what, 1 FROM workers WHERE id = _worker;
END
$$;
