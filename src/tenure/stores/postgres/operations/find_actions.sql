-- find_actions: Up to `_limit` actions of the audit before the number `_before` (NULL: from the latest on) that are not
-- `_kept_for` seconds old, the latest first.
CREATE OR REPLACE FUNCTION find_actions(_now float8, _kept_for float8, _limit integer, _before bigint)
RETURNS TABLE (n bigint, at float8, action text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT a.n, a.at, a.action FROM actions a
    WHERE a.n < coalesce(_before, 9223372036854775807) AND a.at > clock(_now) - _kept_for ORDER BY a.n DESC LIMIT _limit;
END
$$;
