-- failure_text: what stands on an edge in the place of a result that will not come: words that records.py reads, and no JSON.
CREATE OR REPLACE FUNCTION failure_text(_blocker text, _ended text, _error text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '!' || _ended || ' ' || _blocker || ' ' || coalesce(_error, '')
$$;
