-- remove_and_notify: Remove jobs in whatever state they are, whole runs at a time, and notify their holders. When all
-- are removed, propagate that to the dependents that are left, in the order of enqueueing. The caller has locked the
-- jobs.
CREATE OR REPLACE FUNCTION remove_and_notify(_now float8, _ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _ids text[];
    _errors text[];
BEGIN
    PERFORM notify_holder(n, worker, 'deleted') FROM live WHERE n = ANY (_ns) AND state = 'running';
    SELECT array_agg(id ORDER BY n), array_agg(error ORDER BY n) INTO _ids, _errors FROM records WHERE n = ANY (_ns);
    PERFORM remove_jobs(_ns);
    FOR _at IN 1 .. coalesce(cardinality(_ids), 0) LOOP
        PERFORM remove_unkept(_now, update_dependents(_now, ARRAY[_ids[_at]], 'deleted', NULL, _errors[_at]));
    END LOOP;
END
$$;
