-- beat: Record that a worker lives, and its state as JSON. Returns false if it is not registered. The commit does not
-- wait for the disk.
CREATE OR REPLACE FUNCTION beat(_now float8, _id text, _pulse text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE workers SET pulse = _pulse, beat = clock(_now) WHERE id = _id;
    RETURN FOUND;
END
$$;
