-- claim_key: Give the unique key of a task to the job `_id`. Returns NULL, or the id of the job that owns the key.
--
-- Race: two transactions that claim the same free key; the second waits until the first ends. A key that has an owner
-- is not locked, because the owner must be able to end and to free it, however long the transaction of this caller
-- stays open.
--
-- `_until`: end of the window in which the key stays taken; NULL: until the job is final. A key past its window counts
-- as free.
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
        CONTINUE WHEN NOT FOUND;  -- freed meanwhile
        IF _held.until <= _now OR _held.job = _id THEN
            UPDATE uniques SET job = _id, until = _until
            WHERE task = _task AND key = _key AND job = _held.job AND until IS NOT DISTINCT FROM _held.until;
            CONTINUE WHEN NOT FOUND;  -- freed or claimed meanwhile
            RETURN NULL;
        END IF;
        RETURN _held.job;
    END LOOP;
END
$$;
