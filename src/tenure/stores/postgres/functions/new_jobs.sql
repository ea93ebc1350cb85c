-- new_jobs: the jobs of a call, as records.py writes them, with their payloads.
CREATE OR REPLACE FUNCTION new_jobs(_jobs json, _payloads bytea[])
RETURNS TABLE (
    id text, task text, queue text, raw boolean, priority integer, delay float8, run_at float8, expires float8,
    key text, key_for float8, key_raises boolean, tags text[], keep float8, lease float8, max_attempts integer,
    max_losses integer, after text[], if_blocker_fails text, run_id text, flow text, reads text[], attributes json, lookups json,
    payload bytea, at bigint
) LANGUAGE sql IMMUTABLE ROWS 100 AS $$
    SELECT * FROM ROWS FROM (
        json_to_recordset(_jobs) AS (
            id text, task text, queue text, raw boolean, priority integer, delay float8, run_at float8, expires float8,
            key text, key_for float8, key_raises boolean, tags text[], keep float8, lease float8, max_attempts integer,
            max_losses integer, after text[], if_blocker_fails text, run_id text, flow text, reads text[], attributes json,
            lookups json
        ),
        unnest(_payloads)
    ) WITH ORDINALITY
$$;
