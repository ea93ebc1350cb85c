-- lease: `lease_work` for programs of layout 3 and before, which name no isolated tasks.
CREATE OR REPLACE FUNCTION lease(
    _now float8, _queues text[], _limit integer, _worker text, _ttl float8, _nonce bigint, _solo boolean,
    _verdicts text[] DEFAULT NULL
) RETURNS SETOF handed LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM lease_work(_now, _queues, _limit, _worker, _ttl, _nonce, _solo, NULL, NULL, NULL, _verdicts);
END
$$;
