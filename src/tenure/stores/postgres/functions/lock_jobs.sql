-- lock_jobs: Lock the jobs that these ids mean until this transaction ends.
--
-- Every operation that takes several locks takes them in this order; otherwise two could deadlock:
--
-- 1. jobs without open edges, the lower number first;
-- 2. blocked jobs, the lower number first, each after its open edges, because `update_dependents` goes from a job to
--    the edges of its dependents and then to these;
-- 3. ended jobs, the lower number first;
-- 4. unique keys, in the order of `claim_keys`.
--
-- Schedules are locked before all of these, by name (`fire`).
--
-- A run is locked by its current step. After waiting for that lock, an operation checks whether the step still is the
-- current one; if not, the current one has a higher number, so it is later in the order. The steps before it have ended
-- for good. So has the first step, although dependents wait for the run by its id and number, and it owns the key and
-- the attributes. These are locked only when the run is removed, after the current step, as in 3.
--
-- One conflict of orders remains: a dependent of a run has a lower number than a later step of that run, and both may
-- be blocked. The server then aborts one of the two transactions, and Link retries it.
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
            RAISE EXCEPTION 'a run advanced while it was being locked' USING ERRCODE = 'serialization_failure';
        END IF;
        _ns := _ns || ARRAY(SELECT own FROM resolve_ids(_ids)) || ARRAY(SELECT run FROM jobs WHERE n = ANY (_ns) AND run IS NOT NULL);
    END IF;
    PERFORM lock_keys(_ns);
END
$$;
