-- merge_counts: The sum of two maps of counters, with at most `_errors` types of errors; further ones are added to one
-- counter. As merge_counts in core/measures.py makes it. Numbers are added as float8, so that they come back as Python
-- would have them.
CREATE OR REPLACE FUNCTION merge_counts(_before jsonb, _added jsonb, _errors integer) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    _surplus text[] := ARRAY(
        SELECT name FROM jsonb_object_keys(_added) AS name WHERE starts_with(name, 'error:') AND NOT _before ? name
    );
    _others text;
    _rest jsonb;
BEGIN
    IF cardinality(_surplus) > 0 THEN
        _surplus := _surplus[greatest(_errors - count(*), 0) + 1 :] FROM jsonb_object_keys(_before) AS name WHERE starts_with(name, 'error:');
    END IF;
    IF cardinality(_surplus) > 0 THEN
        _others := 'error:' || chr(8230);  -- an ellipsis: no literal, because not every encoding of a database has it
        _rest := _added - _surplus;
        _added := _rest || jsonb_build_object(_others, coalesce((_rest -> _others)::float8, 0) + (
            SELECT sum(value::float8) FROM jsonb_each(_added) WHERE key = ANY (_surplus)
        ));
    END IF;
    RETURN _before || (
        SELECT coalesce(jsonb_object_agg(key, coalesce((_before -> key)::float8, 0) + value::float8), '{}') FROM jsonb_each(_added)
    );
END
$$;
