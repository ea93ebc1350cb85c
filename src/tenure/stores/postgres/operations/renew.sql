-- renew: Extend each lease to its `_ttls` seconds from now, and record progress, where these are not NULL. Returns NULL
-- if every token is current; else for each, in order: NULL, `locked`, `expired`, or what its job is now: a state, or
-- `gone`.
--
-- Race: a transaction has a job locked, perhaps to settle it. It is skipped and not waited for, and no other
-- transaction can take it meanwhile. One call renews all leases of a worker, and one slow transaction must not cost it
-- the others.
CREATE OR REPLACE FUNCTION renew(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _ttls float8[], _progress text[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _free bigint[];
    _renewed integer;
BEGIN
    _now := clock(_now);
    -- KEY SHARE does not conflict with a lease: a job that was given back meanwhile stays locked too, and a stronger lock
    -- would make leases skip it.
    _free := ARRAY(SELECT n FROM live WHERE n = ANY (_ns) ORDER BY n FOR KEY SHARE SKIP LOCKED);
    UPDATE live l SET
        lease_until = coalesce(_now + wanted.ttl, l.lease_until), held_for = coalesce(wanted.ttl, l.held_for),
        progress = coalesce(wanted.progress, l.progress)
    FROM unnest(_ns, _fences, _nonces, _ttls, _progress) AS wanted (n, fence, nonce, ttl, progress)
    WHERE l.n = ANY (ARRAY[wanted.n]) AND wanted.n = ANY (_free) AND l.lease_until IS NOT NULL AND l.fence = wanted.fence
      AND l.nonce = wanted.nonce  -- as in `settle_all`: does not scan all running jobs
      AND (wanted.ttl IS NOT NULL OR wanted.progress IS NOT NULL);
    GET DIAGNOSTICS _renewed = ROW_COUNT;
    IF _renewed = cardinality(_ns) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        SELECT CASE
            WHEN j.n IS NULL THEN 'gone'
            WHEN l.state = 'running' AND l.fence = wanted.fence AND l.nonce = wanted.nonce
                -- Expired and locked: most likely a reaper has it, so the holder must not go on.
                THEN CASE WHEN l.n <> ALL (_free) THEN CASE WHEN l.lease_until > _now THEN 'locked' ELSE 'expired' END END
            ELSE coalesce(l.state, e.state)
        END
        FROM unnest(_ids, _fences, _nonces) WITH ORDINALITY AS wanted (id, fence, nonce, at)
        LEFT JOIN jobs j ON j.id = ANY (ARRAY[wanted.id])
        LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n])
        ORDER BY wanted.at
    );
END
$$;
