-- leases_of: The records of the jobs that are leased under this nonce. Scans all running jobs, which are no more than
-- there are slots.
CREATE OR REPLACE FUNCTION leases_of(_nonce bigint) RETURNS SETOF records LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT r.* FROM live l JOIN records r ON r.n = ANY (ARRAY[l.n]) WHERE l.state = 'running' AND l.nonce = _nonce;
END
$$;
