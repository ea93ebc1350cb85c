-- lease_status: What a lease is worth: held, settled (by this very token), lost, or gone (no such job). Waits for a
-- transaction that has the job locked, because it may be about to settle it; at most two seconds, because that
-- transaction may have been forgotten.
CREATE OR REPLACE FUNCTION lease_status(_id text, _fence integer, _nonce bigint) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '2s' AS $$
DECLARE
    _job record;
BEGIN
    PERFORM FROM jobs j JOIN live l ON l.n = ANY (ARRAY[j.n]) WHERE j.id = _id FOR SHARE OF l;
    -- A second statement, because its snapshot has what the other transaction has done meanwhile.
    SELECT coalesce(l.state, e.state) AS state, coalesce(l.fence, e.fence) AS fence,
           CASE WHEN l.n IS NULL THEN e.nonce ELSE l.nonce END AS nonce
    INTO _job
    FROM jobs j LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n]) WHERE j.id = _id;
    RETURN CASE
        WHEN NOT FOUND THEN 'gone'
        WHEN (_job.fence, _job.nonce) IS DISTINCT FROM (_fence, _nonce) THEN 'lost'
        WHEN _job.state = 'running' THEN 'held'
        ELSE 'settled'
    END;
END
$$;
