-- end_job: End a job and do all that follows: propagate its end to dependents, remove what is not kept. The caller has
-- locked it. `_by`: the worker to count it for, if any.
CREATE OR REPLACE FUNCTION end_job(
    _now float8, _n bigint, _state text, _result text, _error text, _by text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM record_end(_now, _n, _state, _result, _error, _by);
    PERFORM remove_unkept(_now, ARRAY[_n] || propagate_end(_now, _n));
END
$$;
