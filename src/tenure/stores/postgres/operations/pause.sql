-- pause: Lease no more jobs of this queue, which exists from then on. Returns false if it was paused already.
CREATE OR REPLACE FUNCTION pause(_queue text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO paused (queue) VALUES (_queue) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO tallies (queue, what, number) VALUES (_queue, 'waiting', 0);
        RETURN true;
    END IF;
    RETURN false;
END
$$;
