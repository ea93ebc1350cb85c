-- note_quiet: note for up to ?2 empty queues that they are empty at the time ?1, and with which totals, unless that is noted already.
UPDATE tenure_queues SET
    quiet_since = ?1,
    quiet_totals = total_processed + total_succeeded + total_failed + total_retried + total_lost + total_cancelled + total_broken
WHERE name IN (
    SELECT name FROM tenure_queues
    WHERE name <> '' AND paused = 0 AND inbox = 0
      AND waiting + scheduled + blocked + running + succeeded + failed + cancelled + broken = 0
      AND (quiet_since IS NULL OR quiet_since > ?1 OR quiet_totals <>
           total_processed + total_succeeded + total_failed + total_retried + total_lost + total_cancelled + total_broken)
    LIMIT ?2
)
