-- add_worker_totals: add to the totals of the worker ?1, if it is still registered.
UPDATE tenure_workers SET
    total_processed = total_processed + ?2,
    total_succeeded = total_succeeded + ?3,
    total_failed = total_failed + ?4,
    total_retried = total_retried + ?5,
    total_lost = total_lost + ?6,
    total_cancelled = total_cancelled + ?7,
    total_broken = total_broken + ?8
WHERE id = ?1
