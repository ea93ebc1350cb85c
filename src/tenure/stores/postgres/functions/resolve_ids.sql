-- resolve_ids: the jobs that these ids mean, by number, and whose id each is: that of a run means its current step. A table that becomes
-- part of the statement which names it.
CREATE OR REPLACE FUNCTION resolve_ids(_ids text[]) RETURNS TABLE (id text, own bigint, n bigint) LANGUAGE sql STABLE AS $$
    SELECT j.id, j.n, CASE WHEN j.run = j.n THEN (
        SELECT s.n FROM jobs s WHERE s.run = j.run ORDER BY s.n DESC LIMIT 1
    ) ELSE j.n END
    FROM jobs j WHERE j.id = ANY (_ids)
$$;
