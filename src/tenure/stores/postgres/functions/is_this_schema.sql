-- is_this_schema: Whether this schema has the identity of the one that the store opened. A connection to another
-- database may show a schema of the same name.
CREATE OR REPLACE FUNCTION is_this_schema(_identity uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM layout WHERE identity = _identity);
END
$$;
