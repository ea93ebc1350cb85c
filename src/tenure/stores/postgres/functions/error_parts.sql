-- error_parts: Type and message of the error of a job, in the words of `decode_error` in records.py.
CREATE OR REPLACE FUNCTION error_parts(_error text, OUT type text, OUT message text) LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    _parts json;
    _words text[];
BEGIN
    IF left(_error, 1) = '{' THEN
        IF octet_length(error_head(_error)) < octet_length(_error) THEN
            _error := error_head(_error) || '}';
        END IF;
        IF position('\u0000' IN _error) > 0 THEN
            -- PostgreSQL has no NUL in a text, and refuses to parse JSON that has one.
            _error := regexp_replace(_error, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');
        END IF;
        _parts := _error;
        type := _parts ->> 'type';
        message := _parts ->> 'message';
        RETURN;
    END IF;
    _words := string_to_array(_error, ' ');
    CASE _words[1]
        WHEN 'expired' THEN
            type := 'Expired';
            message := 'the job expired before it started';
        WHEN 'wait' THEN
            type := 'WaitTimeout';
            message := 'the job was not completed before its timeout';
        WHEN 'lost' THEN
            type := 'Lost';
            message := coalesce(
                'its worker was retired (' || nullif(array_to_string(_words[3:], ' '), '') || ')', 'its worker died or went silent'
            ) || ', ' || _words[2] || ' time(s) in all';
        WHEN 'blocker' THEN
            type := 'BlockerFailed';
            message := 'job ' || _words[3] || ', which it waited for, ended as ' || _words[2];
        ELSE
            NULL;
    END CASE;
END
$$;
