-- beat: a worker lives and holds so many jobs; false if the registry does not know it. Not worth waiting for the disk.
CREATE OR REPLACE FUNCTION beat(_now float8, _id text, _held integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE workers SET held = _held, beat = clock(_now) WHERE id = _id;
    RETURN FOUND;
END
$$;
