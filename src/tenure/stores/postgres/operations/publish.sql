-- publish: say these texts, in this order, to everybody who watches. Each is another one, for what is message twice in a transaction
-- is heard once.
CREATE OR REPLACE FUNCTION publish(_texts text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify(w.channel, message.text)
    FROM watchers w, unnest(_texts) WITH ORDINALITY AS message (text, at) WHERE w.until > clock(NULL) ORDER BY w.channel, message.at;
END
$$;
