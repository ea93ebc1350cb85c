-- is_here: whether this schema is the one that the store of an errand has opened: another database may have one of that name.
CREATE OR REPLACE FUNCTION is_here(_identity uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM layout WHERE identity = _identity);
END
$$;
