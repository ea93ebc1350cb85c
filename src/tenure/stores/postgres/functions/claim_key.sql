-- claim_key: give the unique key of a task to the job _id; or say who holds it. Of two who want the same free key the second
-- waits for the end of the first. One that is held is not locked: its holder must be able to end and to free it, however long
-- the caller's transaction may last in which somebody has met it.
CREATE OR REPLACE FUNCTION claim_key(_now float8, _task text, _key text, _id text, _until float8) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    _held uniques;
BEGIN
    LOOP
        INSERT INTO uniques (task, key, job, until) VALUES (_task, _key, _id, _until) ON CONFLICT (task, key) DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        SELECT * INTO _held FROM uniques WHERE task = _task AND key = _key;
        CONTINUE WHEN NOT FOUND;  -- freed in between
        IF _held.until <= _now OR _held.job = _id THEN
            UPDATE uniques SET job = _id, until = _until
            WHERE task = _task AND key = _key AND job = _held.job AND until IS NOT DISTINCT FROM _held.until;
            CONTINUE WHEN NOT FOUND;  -- freed, or given to another, in between
            RETURN NULL;
        END IF;
        RETURN _held.job;
    END LOOP;
END
$$;
