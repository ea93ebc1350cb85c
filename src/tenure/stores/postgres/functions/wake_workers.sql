-- wake_workers: as many idle workers of this queue as there is new for them to do, those who have waited longest, unless it is paused.
-- Each waits for work in a row of its own, which goes: it is woken once, and nobody is notified who is not idle. One that
-- another step is about to wake is passed over.
--
-- In a caller's transaction (`defer_wakeups`) all this is left to its commit: nobody could see the work before, and a row that has gone
-- from `idle` would hold up its worker until then.
CREATE OR REPLACE FUNCTION wake_workers(_queue text, _number bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _row tid;
    _woken record;
BEGIN
    IF current_setting('tenure.deferred', true) = 'on' THEN
        -- The trigger has the row at the commit even so, and nothing is left to be looked for and removed then.
        INSERT INTO wakes (queue, number) VALUES (_queue, _number) RETURNING ctid INTO _row;
        DELETE FROM wakes WHERE ctid = _row;
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM idle) THEN
        RETURN;  -- as nearly always
    END IF;
    FOR _woken IN
        DELETE FROM idle WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM idle
            WHERE until > clock(NULL) AND _queue ~ serves AND _queue !~ excludes
              AND NOT EXISTS (SELECT FROM paused WHERE queue = _queue)
            ORDER BY since LIMIT _number FOR UPDATE SKIP LOCKED
        )) RETURNING pg_notify(channel, 'work ' || caller)
    LOOP
        -- Done by asking for it.
    END LOOP;
END
$$;
