-- leave: Remove a worker that has stopped from the registry.
CREATE OR REPLACE FUNCTION leave(_id text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM workers WHERE id = _id;
END
$$;
