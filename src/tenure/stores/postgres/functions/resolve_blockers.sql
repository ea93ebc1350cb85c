-- resolve_blockers: The blockers of the new jobs of a call, as a JSON object from a job's id to the array of its
-- blockers' ids. Locks the stored ones by `lock_jobs_shared`. Raises TN002 if a blocker neither is stored nor comes
-- earlier in the call.
--
-- `_holders`: the answer of `claim_keys`. A blocker that turned out a duplicate earlier in the call stands for the
-- owner of its key.
CREATE OR REPLACE FUNCTION resolve_blockers(_jobs json, _payloads bytea[], _holders jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    _coming jsonb;      -- by id: its first position in the call
    _stands_for jsonb;  -- by id: position at which it turned out a duplicate, and the owner of its key
    _found jsonb;
    _all text[];
    _missing text;
BEGIN
    SELECT coalesce(jsonb_object_agg(id, at), '{}') INTO _coming FROM (
        SELECT id, min(at) AS at FROM new_jobs(_jobs, _payloads) WHERE NOT _holders ? at::text GROUP BY id
    ) AS first;
    SELECT coalesce(jsonb_object_agg(id, jsonb_build_array(at, _holders ->> at::text)), '{}') INTO _stands_for FROM (
        SELECT id, min(at) AS at FROM new_jobs(_jobs, _payloads) WHERE _holders ? at::text GROUP BY id
    ) AS first;
    SELECT coalesce(jsonb_object_agg(new.id, ARRAY(
        SELECT CASE WHEN (_stands_for -> each.id ->> 0)::bigint < new.at THEN _stands_for -> each.id ->> 1 ELSE each.id END
        FROM unnest(new.after) WITH ORDINALITY AS each (id, position) ORDER BY position
    )), '{}') INTO _found
    FROM new_jobs(_jobs, _payloads) AS new
    WHERE cardinality(after) > 0 AND at = (_coming ->> id)::bigint AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = new.id);
    _all := lock_jobs_shared(ARRAY(
        SELECT DISTINCT blocker FROM jsonb_each(_found) AS dependent (id, after), jsonb_array_elements_text(after) AS blocker
    ));
    SELECT blocker INTO _missing
    FROM jsonb_each(_found) AS dependent (id, after), jsonb_array_elements_text(after) AS blocker
    WHERE blocker NOT IN (SELECT unnest(_all)) AND coalesce((_coming ->> blocker)::bigint >= (_coming ->> id)::bigint, true)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'unknown' USING ERRCODE = 'TN002', DETAIL = json_build_array(_missing);
    END IF;
    RETURN _found;
END
$$;
