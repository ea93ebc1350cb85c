-- resolve_ids: The jobs that these ids mean: `n` is the number of the job, or of the current step if the id is a run's;
-- `own` is the number that has the id. The planner inlines it.
CREATE OR REPLACE FUNCTION resolve_ids(_ids text[]) RETURNS TABLE (id text, own bigint, n bigint) LANGUAGE sql STABLE AS $$
    SELECT j.id, j.n, CASE WHEN j.run = j.n THEN (
        SELECT s.n FROM jobs s WHERE s.run = j.run ORDER BY s.n DESC LIMIT 1
    ) ELSE j.n END
    FROM jobs j WHERE j.id = ANY (_ids)
$$;
