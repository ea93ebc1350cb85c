-- clock: The time of an operation in seconds since the epoch: `_now`, which only tests give, or the clock of this
-- server.
CREATE OR REPLACE FUNCTION clock(_now float8) RETURNS float8 LANGUAGE sql AS $$
    SELECT coalesce(_now, extract(epoch FROM clock_timestamp())::float8)
$$;
