-- record_beat: store the heartbeat of the worker ?1: its pulse ?2 and the time ?3 (seconds since boot). Returns its order.
UPDATE tenure_workers SET pulse = ?2, beat = ?3 WHERE id = ?1 RETURNING standing_order
