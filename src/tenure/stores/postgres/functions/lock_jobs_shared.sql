-- lock_jobs_shared: keep the jobs that these ids mean from being removed, from ending and from being revived until this transaction ends; the ids
-- of those that exist come back. They may still be leased, renewed, released. In the order of `lock_jobs`.
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
        -- One may have gone from the one table to the other, or altogether, or handed over, between the two looks.
        SELECT array_agg(m.id), bool_or(m.n NOT IN (SELECT unnest(_ns))) INTO _found, _moved FROM resolve_ids(_ids) m;
        EXIT WHEN _moved IS NOT TRUE;
    END LOOP;
    RETURN coalesce(_found, '{}');
END
$$;
