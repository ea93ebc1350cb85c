-- existing_jobs: which of the ids in the JSON array ?1 belong to existing jobs, as one JSON array.
SELECT json_group_array(j.id) FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.id = wanted.value
