-- lock_with_runs: Lock these jobs, and the whole run of each step. Returns all ids that exist, in the order of `_ids`,
-- the other steps of a run after the step that was named.
CREATE OR REPLACE FUNCTION lock_with_runs(_ids text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _ns bigint[];
    _found text[];
BEGIN
    PERFORM lock_jobs(ARRAY(SELECT coalesce(run_id, id) FROM jobs WHERE id = ANY (_ids)));
    SELECT array_agg(n), array_agg(id ORDER BY at, is_other, n) INTO _ns, _found FROM (
        SELECT DISTINCT ON (s.n) s.n, s.id, asked.at, s.n <> j.n AS is_other
        FROM unnest(_ids) WITH ORDINALITY AS asked (id, at) JOIN jobs j ON j.id = ANY (ARRAY[asked.id]), LATERAL (
            SELECT j.n, j.id UNION SELECT s.n, s.id FROM jobs s WHERE s.run = j.run
        ) AS s
        ORDER BY s.n, asked.at, s.n <> j.n
    ) AS all_steps;
    PERFORM FROM ended WHERE n = ANY (_ns) ORDER BY n FOR UPDATE;
    RETURN coalesce(_found, '{}');
END
$$;
