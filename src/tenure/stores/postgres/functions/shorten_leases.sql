-- shorten_leases: Let no lease of `_queue` end later than its length from now. Leases given before the server's clock
-- was set back do; their holders have the time they were promised, and no more. A difference of up to one second is
-- left.
--
-- Looks at the lease that ends last; if that one is fine, so are the others. Locked leases are skipped.
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
