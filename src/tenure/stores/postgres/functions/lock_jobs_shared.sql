-- lock_jobs_shared: Keep the jobs that these ids mean from being removed, from ending and from being retried until this
-- transaction ends. They may still be leased, renewed and released. Returns the ids that exist. Locks in the order of
-- `lock_jobs`.
CREATE OR REPLACE FUNCTION lock_jobs_shared(_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[];
    _found text[];
    _moved boolean;
BEGIN
    LOOP
        _ns := ARRAY(
            SELECT n FROM live WHERE n = ANY (ARRAY(SELECT m.n FROM resolve_ids(_ids) m))
            ORDER BY blocked_by > 0 AND parked_until IS NULL, n FOR KEY SHARE
        );
        _ns := _ns || ARRAY(
            SELECT n FROM ended WHERE n = ANY (ARRAY(SELECT m.n FROM resolve_ids(_ids) m)) ORDER BY n FOR KEY SHARE
        );
        -- Between the two queries a job may have ended, been removed or handed over.
        SELECT array_agg(m.id), bool_or(m.n NOT IN (SELECT unnest(_ns))) INTO _found, _moved FROM resolve_ids(_ids) m;
        EXIT WHEN _moved IS NOT TRUE;
    END LOOP;
    RETURN coalesce(_found, '{}');
END
$$;
