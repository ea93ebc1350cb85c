-- delete_inbox_entries: delete the entries of the queue ?1 up to number ?2. Runs in the transaction that has read them, so no
-- entry was inserted in between.
DELETE FROM tenure_inbox WHERE queue = ?1 AND n <= ?2
