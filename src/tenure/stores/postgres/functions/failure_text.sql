-- failure_text: The text on an edge whose blocker ended without a result; `_decode_result` in records.py reads it. The
-- `!` marks it as no JSON.
CREATE OR REPLACE FUNCTION failure_text(_blocker text, _ended text, _error text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '!' || _ended || ' ' || _blocker || ' ' || coalesce(_error, '')
$$;
