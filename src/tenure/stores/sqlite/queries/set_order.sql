-- set_order: give the worker ?1 the order ?2.
UPDATE tenure_workers SET standing_order = ?2 WHERE id = ?1
