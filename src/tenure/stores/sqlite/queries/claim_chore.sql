-- claim_chore: record that the chore ?1 begins at ?2 (seconds since boot), unless it began less than ?3 seconds ago. A recorded
-- time later than ?2 is from before a reboot and does not count.
INSERT INTO tenure_meta (key, value) VALUES ('turn ' || ?1, ?2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value > ?2 OR value <= ?2 - ?3
