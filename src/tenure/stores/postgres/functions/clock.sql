-- clock: the time of a step: that of this server, or of a test's clock.
CREATE OR REPLACE FUNCTION clock(_now float8) RETURNS float8 LANGUAGE sql AS $$
    SELECT coalesce(_now, extract(epoch FROM clock_timestamp())::float8)
$$;
