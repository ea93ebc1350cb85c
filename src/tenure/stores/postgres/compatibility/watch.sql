-- watch: `watch_jobs` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION watch(_ids text[], _channel text) RETURNS TABLE (asked text, final bigint) LANGUAGE sql AS $$
    SELECT * FROM watch_jobs(_ids, _channel)
$$;
