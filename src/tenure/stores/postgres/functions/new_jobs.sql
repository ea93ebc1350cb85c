-- new_jobs: The new jobs of a call with their payloads, one row each, numbered from 1 in `at`. `_jobs`: a JSON array of
-- what `new_fields` in records.py writes.
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
