-- close_edges: close edges, and store in each the result that the dependent receives. ?1 is a JSON array of [dependent, position, result].
UPDATE tenure_edges SET open = 0, result = wanted.value ->> 2
FROM json_each(?1) AS wanted WHERE dependent = wanted.value ->> 0 AND position = wanted.value ->> 1
