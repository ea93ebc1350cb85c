-- shorten_error: Shorten an error for the record of an attempt, as job.in_brief does: keep the end of its traceback.
CREATE OR REPLACE FUNCTION shorten_error(_error text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    _parts json;
BEGIN
    -- A text that is no JSON, a short error and the output of a success have no long traceback.
    IF left(_error, 1) <> '{' OR length(_error) <= 1500 OR position('"traceback":' IN _error) = 0 THEN
        RETURN _error;
    END IF;
    IF position('\u0000' IN _error) > 0 THEN
        -- PostgreSQL has no NUL in a text, and refuses to parse JSON that has one.
        _error := regexp_replace(_error, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');
    END IF;
    _parts := _error;
    RETURN json_build_object(
        'type', _parts -> 'type', 'message', _parts -> 'message', 'traceback', right(_parts ->> 'traceback', 1500),
        'output', _parts -> 'output'
    );
END
$$;
