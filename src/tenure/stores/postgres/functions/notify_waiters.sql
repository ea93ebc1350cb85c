-- notify_waiters: Announce to every channel that waits for one of these jobs that it is final or deleted, once, and
-- mark the job as waited for.
CREATE OR REPLACE FUNCTION notify_waiters(_ns bigint[], _kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _waiter record;
BEGIN
    FOR _waiter IN
        DELETE FROM waiters w USING jobs j WHERE w.n = ANY (_ns) AND j.n = ANY (ARRAY[w.n]) RETURNING w.n, w.channel, j.id
    LOOP
        UPDATE ended SET waited = true WHERE n = _waiter.n AND NOT waited;
        PERFORM pg_notify(_waiter.channel, _kind || ' ' || _waiter.id);
    END LOOP;
END
$$;
