-- lock_jobs: nobody else changes these jobs until this transaction ends.
--
-- Whoever takes several locks takes them in this order, or two may wait for each other: job by job, the older first, its edges
-- and then itself (as `follow` comes from a job to the edges of those that wait for it, which are younger); then all unique keys.
CREATE OR REPLACE FUNCTION lock_jobs(_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[] := ARRAY(SELECT n FROM jobs WHERE id = ANY (_ids) ORDER BY n);
    _n bigint;
BEGIN
    IF EXISTS (SELECT FROM edges WHERE dependent = ANY (_ns) AND open) THEN
        FOREACH _n IN ARRAY _ns LOOP
            PERFORM FROM edges WHERE dependent = _n AND open ORDER BY position FOR UPDATE;
            PERFORM FROM live WHERE n = _n FOR UPDATE;
        END LOOP;
    ELSE
        PERFORM FROM live WHERE n = ANY (_ns) ORDER BY n FOR UPDATE;
    END IF;
    PERFORM FROM ended WHERE n = ANY (_ns) ORDER BY n FOR UPDATE;
    PERFORM lock_keys(_ns);
END
$$;
