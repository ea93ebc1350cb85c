-- delete_inbox_entries: remove the entries of the queue ?1 up to number ?2. In the transaction that has read them, so none has come between.
DELETE FROM tenure_inbox WHERE queue = ?1 AND n <= ?2
