-- clock_skew: How many workers have a last beat in the future, and how many leases end later than their length from
-- now: signs that the server's clock was set back.
CREATE OR REPLACE FUNCTION clock_skew(_now float8, OUT beats bigint, OUT leases bigint) LANGUAGE plpgsql AS $$
BEGIN
    _now := clock(_now);
    SELECT count(*) INTO beats FROM workers WHERE beat > _now + 1;
    SELECT count(*) INTO leases FROM live WHERE state = 'running' AND lease_until > _now + held_for + 1;
END
$$;
