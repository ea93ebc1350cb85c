-- renew: hold each job for longer, if so many seconds are given, and note its progress. NULL if every token is current; else
-- for each, in order: NULL, or what its job is now: a state, or `gone`.
CREATE OR REPLACE FUNCTION renew(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _ttls float8[], _progress text[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _renewed integer;
BEGIN
    _now := clock(_now);
    PERFORM FROM live WHERE n = ANY (_ns) ORDER BY n FOR NO KEY UPDATE;
    UPDATE live l SET
        lease_until = coalesce(_now + wanted.ttl, l.lease_until), progress = coalesce(wanted.progress, l.progress)
    FROM unnest(_ns, _fences, _nonces, _ttls, _progress) AS wanted (n, fence, nonce, ttl, progress)
    WHERE l.n = wanted.n AND l.state = 'running' AND l.fence = wanted.fence AND l.nonce = wanted.nonce;
    GET DIAGNOSTICS _renewed = ROW_COUNT;
    IF _renewed = cardinality(_ns) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        SELECT CASE
            WHEN j.n IS NULL THEN 'gone'
            WHEN l.state = 'running' AND l.fence = wanted.fence AND l.nonce = wanted.nonce THEN NULL
            ELSE coalesce(l.state, e.state)
        END
        FROM unnest(_ids, _fences, _nonces) WITH ORDINALITY AS wanted (id, fence, nonce, at)
        LEFT JOIN jobs j ON j.id = wanted.id LEFT JOIN live l ON l.n = j.n LEFT JOIN ended e ON e.n = j.n
        ORDER BY wanted.at
    );
END
$$;
