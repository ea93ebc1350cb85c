-- claim_chore: the chore ?1 is begun at ?2, unless it was less than ?3 seconds ago; after a reboot the clock begins anew.
INSERT INTO tenure_meta (key, value) VALUES ('turn ' || ?1, ?2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value > ?2 OR value <= ?2 - ?3
