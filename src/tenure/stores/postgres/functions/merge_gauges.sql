-- merge_gauges: The later values, and of `oldest` the greater one, as merge_gauges in core/measures.py makes them.
CREATE OR REPLACE FUNCTION merge_gauges(_before jsonb, _later jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (_before -> 'oldest')::float8 > (_later -> 'oldest')::float8 THEN
        _later := jsonb_set(_later, '{oldest}', _before -> 'oldest');
    END IF;
    RETURN _before || _later;
END
$$;
