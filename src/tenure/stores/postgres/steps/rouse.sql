-- rouse: `wake` for a statement that is no step (single.py), and so has no search path of ours.
CREATE OR REPLACE FUNCTION rouse(_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM wake(_queue, 1);
END
$$;
