-- get_busy: `stop_waiting` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION get_busy(_channel text, _caller integer DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
    SELECT stop_waiting(_channel, _caller)
$$;
