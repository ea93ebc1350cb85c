-- edges_to_close: the open edges to the jobs in the JSON array ?1, which have all succeeded, as one JSON array of [index of the
-- blocker in ?1, dependent, position], in the order in which they close.
SELECT json_group_array(json_array(place, dependent, position)) FROM (
    SELECT wanted.key AS place, e.dependent, e.position
    FROM json_each(?1) AS wanted
    JOIN tenure_edges AS e ON e.blocker = wanted.value AND e.open = 1
    JOIN tenure_jobs AS j ON j.id = e.dependent
    ORDER BY wanted.key, j.seq, e.position
)
