-- wake: as many idle workers of this queue as there is new for them to do, those who have waited longest, unless it is paused.
-- Each waits for work in a row of its own, which goes: it is woken once, and nobody is notified who is not idle. One that
-- another step is about to wake is passed over.
CREATE OR REPLACE FUNCTION wake(_queue text, _number bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _woken record;
BEGIN
    -- Nearly always nobody is idle: then this is all.
    IF NOT EXISTS (SELECT FROM idle WHERE until > clock(NULL) AND _queue ~ serves AND _queue !~ excludes)
        OR EXISTS (SELECT FROM paused WHERE queue = _queue) THEN
        RETURN;
    END IF;
    FOR _woken IN
        DELETE FROM idle WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM idle
            WHERE until > clock(NULL) AND _queue ~ serves AND _queue !~ excludes
            ORDER BY since LIMIT _number FOR UPDATE SKIP LOCKED
        )) RETURNING channel, caller
    LOOP
        PERFORM pg_notify(_woken.channel, 'work ' || _woken.caller);
    END LOOP;
END
$$;
