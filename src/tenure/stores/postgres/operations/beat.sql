-- beat: a worker lives and says this of itself; false if the registry does not know it. Not worth waiting for the disk.
CREATE OR REPLACE FUNCTION beat(_now float8, _id text, _pulse text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE workers SET pulse = _pulse, beat = clock(_now) WHERE id = _id;
    RETURN FOUND;
END
$$;
