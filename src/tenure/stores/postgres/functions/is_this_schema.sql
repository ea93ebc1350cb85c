-- is_this_schema: whether this schema is the one that the store of an errand has opened: another database may have one of that name.
CREATE OR REPLACE FUNCTION is_this_schema(_identity uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM layout WHERE identity = _identity);
END
$$;
