-- forget_quiet: remove up to ?2 empty queues that were empty at the time ?1 already, and in which nothing was counted since.
DELETE FROM tenure_queues WHERE name IN (
    SELECT name FROM tenure_queues
    WHERE name <> '' AND paused = 0 AND inbox = 0
      AND waiting + scheduled + blocked + running + succeeded + failed + cancelled + broken = 0
      AND quiet_since <= ?1 AND quiet_totals =
          total_processed + total_succeeded + total_failed + total_retried + total_lost + total_cancelled + total_broken
    LIMIT ?2
)
