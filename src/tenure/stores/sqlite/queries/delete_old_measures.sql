-- delete_old_measures: delete up to ?3 rows of slots of the resolution ?1 that begin at ?2 or earlier, the oldest first.
DELETE FROM tenure_measures WHERE rowid IN (
    SELECT rowid FROM tenure_measures WHERE resolution = ?1 AND slot <= ?2 ORDER BY slot LIMIT ?3
)
