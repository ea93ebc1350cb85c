-- find_marks: The latest `_kept` marks, of these those from `_since` on, the oldest first.
CREATE OR REPLACE FUNCTION find_marks(_since float8, _kept integer) RETURNS TABLE (at float8, label text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.at, m.label FROM (SELECT n, at, label FROM marks ORDER BY n DESC LIMIT _kept) AS m WHERE m.at >= _since ORDER BY m.n;
END
$$;
