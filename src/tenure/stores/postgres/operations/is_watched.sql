-- is_watched: whether anybody may be watching.
CREATE OR REPLACE FUNCTION is_watched() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM watchers WHERE until > clock(NULL));
END
$$;
