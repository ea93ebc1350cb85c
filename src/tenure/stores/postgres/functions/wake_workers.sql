-- wake_workers: Wake up to `_number` idle workers that serve `_queue`, those first that have waited longest, unless the
-- queue is paused. The row in `idle` of a caller that is woken is deleted, so each is notified once. Rows that another
-- transaction is deleting are skipped.
--
-- In a caller's transaction (`defer_wakeups`) this waits for the commit: no worker could see the work before, and the
-- deleted row in `idle` would lock out its worker until then.
CREATE OR REPLACE FUNCTION wake_workers(_queue text, _number bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _row tid;
    _woken record;
BEGIN
    IF current_setting('tenure.deferred', true) = 'on' THEN
        -- The deferred trigger gets the deleted row at the commit all the same, so that no row is left to clean up.
        INSERT INTO wakes (queue, number) VALUES (_queue, _number) RETURNING ctid INTO _row;
        DELETE FROM wakes WHERE ctid = _row;
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM idle) THEN
        RETURN;  -- the usual case
    END IF;
    FOR _woken IN
        DELETE FROM idle WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM idle
            WHERE until > clock(NULL) AND _queue ~ serves AND _queue !~ excludes
              AND NOT EXISTS (SELECT FROM paused WHERE queue = _queue)
            ORDER BY since LIMIT _number FOR UPDATE SKIP LOCKED
        )) RETURNING pg_notify(channel, 'work ' || caller)
    LOOP
        -- The notification is sent by evaluating the row.
    END LOOP;
END
$$;
