-- check_headers: Return `_headers`, NULL if there are none, if they are what `headers` in tenure/core/checks.py accepts; else
-- raise invalid_parameter_value. (jsonb refuses NUL by itself.)
CREATE OR REPLACE FUNCTION check_headers(_headers jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    _header record;
    _number integer := 0;
    _size integer := 0;
BEGIN
    PERFORM check_value(_headers, jsonb_typeof(_headers) = 'object', 'headers', 'a JSON object');
    FOR _header IN SELECT key, value, value #>> '{}' AS text FROM jsonb_each(_headers) LOOP
        PERFORM check_value(_header.key, _header.key ~ '^[a-z0-9-]{1,64}$', 'a name in headers', '1 to 64 of a-z, 0-9 and -');
        PERFORM check_value(_header.value, jsonb_typeof(_header.value) = 'string', format('headers[%L]', _header.key), 'a text');
        _number := _number + 1;
        _size := _size + length(_header.key) + octet_length(convert_to(_header.text, 'UTF8'));
    END LOOP;
    PERFORM check_value(
        format('%s with %s', _number, _size), _number <= 16 AND _size <= 2000, 'headers', 'at most 16 with 2000 bytes in all'
    );
    RETURN nullif(_headers, '{}');
END
$$;
