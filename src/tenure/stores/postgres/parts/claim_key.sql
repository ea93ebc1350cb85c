-- claim_key: give the unique key of a task to the job _id; or say who holds it. Either way the key stays as it is until this
-- transaction ends: whoever wants it, or wants to free it, waits.
CREATE OR REPLACE FUNCTION claim_key(_now float8, _task text, _key text, _id text, _until float8) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    _holder text;
BEGIN
    INSERT INTO uniques AS held (task, key, job, until) VALUES (_task, _key, _id, _until)
    ON CONFLICT (task, key) DO UPDATE SET job = excluded.job, until = excluded.until
    WHERE held.until <= _now OR held.job = excluded.job;
    IF NOT FOUND THEN
        SELECT job INTO _holder FROM uniques WHERE task = _task AND key = _key;
    END IF;
    RETURN _holder;
END
$$;
