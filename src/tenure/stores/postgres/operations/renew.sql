-- renew: hold each job for longer, if so many seconds are given, and note its progress. NULL if every token is current; else
-- for each, in order: NULL, `locked`, `expired`, or what its job is now: a state, or `gone`.
--
-- Nobody is waited for: what a transaction of somebody's has locked, perhaps to settle it, is passed over and nobody can take it
-- meanwhile. All leases of a worker are renewed by one call, and one slow transaction must not cost it the others.
CREATE OR REPLACE FUNCTION renew(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _ttls float8[], _progress text[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _free bigint[];
    _renewed integer;
BEGIN
    _now := clock(_now);
    -- By a lock that a lease does not mind: what has been given back meanwhile stays locked too, and would be passed over.
    _free := ARRAY(SELECT n FROM live WHERE n = ANY (_ns) ORDER BY n FOR KEY SHARE SKIP LOCKED);
    UPDATE live l SET
        lease_until = coalesce(_now + wanted.ttl, l.lease_until), held_for = coalesce(wanted.ttl, l.held_for),
        progress = coalesce(wanted.progress, l.progress)
    FROM unnest(_ns, _fences, _nonces, _ttls, _progress) AS wanted (n, fence, nonce, ttl, progress)
    WHERE l.n = ANY (ARRAY[wanted.n]) AND wanted.n = ANY (_free) AND l.lease_until IS NOT NULL AND l.fence = wanted.fence
      AND l.nonce = wanted.nonce  -- as in `settle`: not all that run are gone through
      AND (wanted.ttl IS NOT NULL OR wanted.progress IS NOT NULL);
    GET DIAGNOSTICS _renewed = ROW_COUNT;
    IF _renewed = cardinality(_ns) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        SELECT CASE
            WHEN j.n IS NULL THEN 'gone'
            WHEN l.state = 'running' AND l.fence = wanted.fence AND l.nonce = wanted.nonce
                -- Expired and locked: a reaper has it, most likely, and it must not be promised to anybody.
                THEN CASE WHEN l.n <> ALL (_free) THEN CASE WHEN l.lease_until > _now THEN 'locked' ELSE 'expired' END END
            ELSE coalesce(l.state, e.state)
        END
        FROM unnest(_ids, _fences, _nonces) WITH ORDINALITY AS wanted (id, fence, nonce, at)
        LEFT JOIN jobs j ON j.id = ANY (ARRAY[wanted.id]) LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n])
        ORDER BY wanted.at
    );
END
$$;
