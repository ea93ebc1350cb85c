-- count_measures: the number of rows of each slot in ?1, a JSON array of [resolution, slot], as one JSON array in the same
-- order.
SELECT json_group_array((
    SELECT count(*) FROM tenure_measures WHERE resolution = current.value ->> 0 AND slot = current.value ->> 1
)) FROM json_each(?1) AS current
