-- peek: Up to `_limit` entries of a queue's inbox as bytes, the oldest first. Does not lock them: `take_in` does.
CREATE OR REPLACE FUNCTION peek(_queue text, _limit integer) RETURNS TABLE (n bigint, entry bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT i.n, coalesce(i.bytes, convert_to(i.entry, 'UTF8')) FROM inbox i WHERE i.queue = _queue ORDER BY i.n LIMIT _limit;
END
$$;
