-- ids_with_prefix: up to ?3 ids, from ?1 up to but not including ?2.
SELECT id FROM tenure_jobs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3
