-- clock_skew: how many workers have a beat from the future, and how many leases end later than their length from now.
CREATE OR REPLACE FUNCTION clock_skew(_now float8, OUT beats bigint, OUT leases bigint) LANGUAGE plpgsql AS $$
BEGIN
    _now := clock(_now);
    SELECT count(*) INTO beats FROM workers WHERE beat > _now + 1;
    SELECT count(*) INTO leases FROM live WHERE state = 'running' AND lease_until > _now + held_for + 1;
END
$$;
