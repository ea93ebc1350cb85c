-- start: insert the first row of a chain and announce it, if Queuert has applied exactly the migrations that we know.
-- One statement with one text, so that it runs in a transaction of any library. Answers null, or the migrations that it has found.
WITH given AS (
    SELECT ({})::text::jsonb AS chain
), known AS (
    SELECT array_agg(name::text ORDER BY name COLLATE "C") AS names FROM queuert.migration
), started AS (
    INSERT INTO queuert.job (id, type_name, chain_id, chain_type_name, chain_index, input, scheduled_at)
    SELECT (chain->>'id')::uuid, chain->>'type', (chain->>'id')::uuid, chain->>'type', 0, nullif(chain->'input', 'null'::jsonb),
           now() + (chain->>'delay')::float8 * interval '1 second'
    FROM given, known
    WHERE known.names = ARRAY(SELECT jsonb_array_elements_text(chain->'migrations'))
    RETURNING type_name
), announced AS (
    SELECT pg_notify(chain->>'channel', type_name) FROM started, given
)
SELECT CASE WHEN (SELECT count(*) FROM announced) = 0 THEN coalesce(to_json(names)::text, '[]') END FROM known
