-- lock_jobs: nobody else changes the jobs that these ids mean until this transaction ends.
--
-- Whoever takes several locks takes them in this order, or two may wait for each other:
--
-- 1. jobs that wait for no other, the older first;
-- 2. blocked ones, the older first, each after its open edges: `update_dependents` comes from a job to the edges of those that wait for it, and then
--    to themselves;
-- 3. jobs that have ended, the older first;
-- 4. unique keys, in the order of `claim_keys`.
--
-- A run is locked by its current step: whoever may change the run holds that, and whoever had to wait for it looks whether it still
-- is the current one (if not, the one that is has come later, so it is further on in the order). The steps before it have ended for
-- good; the first too, although it is by its id and its number that others wait for the run, hold its key and have its attributes.
-- They are locked only when the run goes, after the current one, as 3 says.
--
-- Two orders remain that cannot be made one: who waits for a run is older than a later step of it, and both may be blocked. The server
-- then undoes one of the two, and it is done again.
CREATE OR REPLACE FUNCTION lock_jobs(_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[];
    _of_runs boolean;
    _tied bigint[];
    _left bigint[];
    _n bigint;
    _next bigint;
BEGIN
    SELECT array_agg(DISTINCT n ORDER BY n), bool_or(j.run IS NOT NULL) INTO _ns, _of_runs
    FROM (SELECT m.n, (SELECT run FROM jobs WHERE jobs.n = m.n) AS run FROM resolve_ids(_ids) m) AS j;
    IF _ns IS NULL THEN
        RETURN;
    END IF;
    _tied := ARRAY(SELECT DISTINCT dependent FROM edges WHERE dependent = ANY (_ns) AND open ORDER BY dependent);
    IF NOT _of_runs THEN
        PERFORM FROM live WHERE n = ANY (_ns) AND n <> ALL (_tied) ORDER BY n FOR UPDATE;
    ELSE
        _left := ARRAY(SELECT n FROM unnest(_ns) AS n WHERE n <> ALL (_tied) ORDER BY n);
        WHILE cardinality(_left) > 0 LOOP
            _n := _left[1];
            _left := _left[2:];
            PERFORM FROM live WHERE n = _n FOR UPDATE;
            CONTINUE WHEN FOUND;
            SELECT max(s.n) INTO _next FROM jobs j JOIN jobs s ON s.run = ANY (ARRAY[j.run]) WHERE j.n = _n;
            CONTINUE WHEN _next IS NULL OR _next = ANY (_ns);
            _ns := _ns || _next;
            IF EXISTS (SELECT FROM edges WHERE dependent = _next AND open) THEN
                _tied := ARRAY(SELECT n FROM unnest(_tied || _next) AS n ORDER BY n);
            ELSE
                _left := ARRAY(SELECT n FROM unnest(_left || _next) AS n ORDER BY n);
            END IF;
        END LOOP;
    END IF;
    FOREACH _n IN ARRAY _tied LOOP
        PERFORM FROM edges WHERE dependent = _n AND open ORDER BY position FOR UPDATE;
        PERFORM FROM live WHERE n = _n FOR UPDATE;
    END LOOP;
    PERFORM FROM ended WHERE n = ANY (_ns) ORDER BY n FOR UPDATE;
    IF _of_runs THEN
        IF EXISTS (SELECT FROM resolve_ids(_ids) WHERE NOT n = ANY (_ns)) THEN
            RAISE EXCEPTION 'a run goes on too fast' USING ERRCODE = 'serialization_failure';
        END IF;
        _ns := _ns || ARRAY(SELECT own FROM resolve_ids(_ids)) || ARRAY(SELECT run FROM jobs WHERE n = ANY (_ns) AND run IS NOT NULL);
    END IF;
    PERFORM lock_keys(_ns);
END
$$;
