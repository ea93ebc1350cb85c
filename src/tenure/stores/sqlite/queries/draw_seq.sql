-- draw_seq: reserve ?1 places at the back of the line; the last of them is returned.
UPDATE tenure_meta SET value = value + ?1 WHERE key = 'seq' RETURNING value
