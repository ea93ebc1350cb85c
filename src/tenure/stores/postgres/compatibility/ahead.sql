-- ahead: `clock_skew` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION ahead(_now float8, OUT beats bigint, OUT leases bigint) LANGUAGE sql AS $$
    SELECT * FROM clock_skew(_now)
$$;
