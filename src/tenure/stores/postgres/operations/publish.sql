-- publish: Send these texts, in this order, to every watcher. Each text of a call must be different, because the server
-- delivers equal notifications of a transaction once.
CREATE OR REPLACE FUNCTION publish(_texts text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify(w.channel, message.text)
    FROM watchers w, unnest(_texts) WITH ORDINALITY AS message (text, at) WHERE w.until > clock(NULL) ORDER BY w.channel, message.at;
END
$$;
