-- shorten_leases: let no lease of this queue end later than its length from now, as those do that were given before the clock of the server was
-- set back: their holders have as long as they were promised, and no longer. A second more is no reason to change anything.
--
-- The last to end is looked at, and if that is fine nothing else: what ends before it ends soon enough.
CREATE OR REPLACE FUNCTION shorten_leases(_now float8, _queue text, _limit integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (
        SELECT lease_until > _now + held_for + 1 FROM live WHERE state = 'running' AND queue = _queue
        ORDER BY lease_until DESC LIMIT 1
    ) THEN
        UPDATE live SET lease_until = _now + held_for WHERE n = ANY (ARRAY(
            SELECT n FROM live WHERE n = ANY (ARRAY(
                SELECT n FROM live WHERE state = 'running' AND queue = _queue ORDER BY lease_until DESC LIMIT _limit
            )) AND state = 'running' AND lease_until > _now + held_for + 1
            FOR UPDATE SKIP LOCKED
        ));
    END IF;
END
$$;
