-- nudge: Announce to each of these registered workers that there is work for it. The message names caller -1: programs
-- of the layouts before 7 look for that caller and find none.
CREATE OR REPLACE FUNCTION nudge(_workers text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(channel, 'work -1') FROM workers WHERE id = ANY (_workers);
END
$$;
