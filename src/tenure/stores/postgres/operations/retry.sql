-- retry: Start each final job again, at the back of the line or blocked by its open edges. Returns a verdict for each:
-- ok, not_found, or a JSON array of the state it is in, the obstacle (not final, handed over, gone, unique) and the id
-- of the other job, if any.
CREATE OR REPLACE FUNCTION retry(_now float8, _ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _verdicts text[] := '{}';
BEGIN
    _now := clock(_now);
    PERFORM lock_jobs(_ids);
    FOR _at IN 1 .. cardinality(_ids) LOOP
        _verdicts[_at] := retry_job(_now, _ids[_at]);
    END LOOP;
    RETURN _verdicts;
END
$$;
