-- notify_holder: Announce to the worker that holds the job `_n`, if it is registered, what became of the job. Delivered
-- when this transaction commits.
CREATE OR REPLACE FUNCTION notify_holder(_n bigint, _worker text, _kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(w.channel, _kind || ' ' || j.id) FROM workers w, jobs j WHERE w.id = _worker AND j.n = _n;
END
$$;
