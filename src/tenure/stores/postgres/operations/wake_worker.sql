-- wake_worker: `wake_workers` for a statement that is no step (single.py), and so has no search path of ours.
CREATE OR REPLACE FUNCTION wake_worker(_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM wake_workers(_queue, 1);
END
$$;
