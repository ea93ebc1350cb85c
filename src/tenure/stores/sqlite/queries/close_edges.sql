-- close_edges: each dependent in the JSON array ?1 need not wait for its blocker at that position any more, and owns its result.
-- Each: dependent, position, result.
UPDATE tenure_edges SET open = 0, result = wanted.value ->> 2
FROM json_each(?1) AS wanted WHERE dependent = wanted.value ->> 0 AND position = wanted.value ->> 1
