-- shorten_error: an error as it is remembered with an attempt, like job.in_brief: of its traceback the end.
CREATE OR REPLACE FUNCTION shorten_error(_error text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    _parts json;
BEGIN
    -- Words are no JSON, and what is short has no long traceback, nor has a success that wrote much.
    IF left(_error, 1) <> '{' OR length(_error) <= 1500 OR position('"traceback":' IN _error) = 0 THEN
        RETURN _error;
    END IF;
    IF position('\u0000' IN _error) > 0 THEN
        -- No text here has a NUL, and whoever looks into JSON that has one is refused.
        _error := regexp_replace(_error, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');
    END IF;
    _parts := _error;
    RETURN json_build_object(
        'type', _parts -> 'type', 'message', _parts -> 'message', 'traceback', right(_parts ->> 'traceback', 1500),
        'output', _parts -> 'output'
    );
END
$$;
