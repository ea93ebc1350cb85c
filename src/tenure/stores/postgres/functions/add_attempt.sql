-- add_attempt: Append one finished attempt to `_attempts` and return the latest ten. Each entry is a JSON array;
-- `_attempt_record` in records.py reads it.
CREATE OR REPLACE FUNCTION add_attempt(
    _attempts text[], _number integer, _fence integer, _started_at float8, _ended_at float8, _worker text, _outcome text, _error text
) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    _attempts := _attempts || json_build_array(_number, _fence, _started_at, _ended_at, _worker, _outcome, shorten_error(_error))::text;
    RETURN _attempts[greatest(cardinality(_attempts) - 9, 1) :];
END
$$;
