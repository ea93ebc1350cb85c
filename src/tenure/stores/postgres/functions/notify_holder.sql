-- notify_holder: tell the worker that holds a job, if the registry knows it, what has become of the job.
CREATE OR REPLACE FUNCTION notify_holder(_n bigint, _worker text, _kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(w.channel, _kind || ' ' || j.id) FROM workers w, jobs j WHERE w.id = _worker AND j.n = _n;
END
$$;
