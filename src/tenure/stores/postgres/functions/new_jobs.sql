-- new_jobs: the jobs of a call, as records.py writes them, with their payloads.
CREATE OR REPLACE FUNCTION new_jobs(_jobs json, _payloads bytea[])
RETURNS TABLE (
    -- include: plain_fields,
    -- include: special_fields,
    payload bytea, at bigint
) LANGUAGE sql IMMUTABLE ROWS 100 AS $$
    SELECT * FROM ROWS FROM (
        json_to_recordset(_jobs) AS (
            -- include: plain_fields,
            -- include: special_fields
        ),
        unnest(_payloads)
    ) WITH ORDINALITY
$$;
