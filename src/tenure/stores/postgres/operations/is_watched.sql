-- is_watched: Whether any watcher is registered.
CREATE OR REPLACE FUNCTION is_watched() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM watchers WHERE until > clock(NULL));
END
$$;
