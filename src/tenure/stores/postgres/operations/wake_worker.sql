-- wake_worker: Call `wake_workers` for one job, from a statement that is no operation (statements/enqueue_single.sql)
-- and so has no search path of ours.
CREATE OR REPLACE FUNCTION wake_worker(_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM wake_workers(_queue, 1);
END
$$;
