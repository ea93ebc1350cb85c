-- counter_name: The counter that counts a job that has not ended.
CREATE OR REPLACE FUNCTION counter_name(_state text, _run_at float8) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN _state = 'waiting' AND _run_at IS NOT NULL THEN 'scheduled' ELSE _state END
$$;
