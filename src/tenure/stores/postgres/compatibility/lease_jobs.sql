-- lease_jobs: `lease_work` for programs of the layouts 4 to 6, which skip no tasks.
CREATE OR REPLACE FUNCTION lease_jobs(
    _now float8, _queues text[], _limit integer, _worker text, _ttl float8, _nonce bigint, _solo boolean, _isolated text[],
    _verdicts text[] DEFAULT NULL
) RETURNS SETOF handed LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM lease_work(_now, _queues, _limit, _worker, _ttl, _nonce, _solo, _isolated, NULL, NULL, _verdicts);
END
$$;
