-- peek: up to _limit entries in the inbox of a queue, byte for byte, the longest there first.
CREATE OR REPLACE FUNCTION peek(_queue text, _limit integer) RETURNS TABLE (n bigint, entry bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT i.n, coalesce(i.bytes, convert_to(i.entry, 'UTF8')) FROM inbox i WHERE i.queue = _queue ORDER BY i.n LIMIT _limit;
END
$$;
