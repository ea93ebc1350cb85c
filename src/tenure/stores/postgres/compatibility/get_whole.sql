-- get_whole: `get_with_attempts` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION get_whole(_ids text[]) RETURNS TABLE (job records, attempts text[]) LANGUAGE sql AS $$
    SELECT * FROM get_with_attempts(_ids)
$$;
