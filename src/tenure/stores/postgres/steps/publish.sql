-- publish: say these texts, in this order, to everybody who watches. Each is another one, for what is said twice in a transaction
-- is heard once.
CREATE OR REPLACE FUNCTION publish(_texts text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify(w.channel, said.text)
    FROM watchers w, unnest(_texts) WITH ORDINALITY AS said (text, at) WHERE w.until > clock(NULL) ORDER BY w.channel, said.at;
END
$$;
