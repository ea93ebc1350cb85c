-- write_lookups: add lookup values to runs. ?1 is a JSON array of [run, name, value].
INSERT OR IGNORE INTO tenure_lookups (run_id, name, value, flow, n)
SELECT j.id, wanted.value ->> 1, wanted.value ->> 2, j.flow, j.n
FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.id = wanted.value ->> 0 WHERE j.flow IS NOT NULL
