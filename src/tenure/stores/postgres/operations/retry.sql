-- retry: each final job begins anew, at the back or blocked by its open edges; a verdict each: ok, not_found, or JSON: the state
-- it is in, what stands in the way (not final, handed over, gone, unique) and who.
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
