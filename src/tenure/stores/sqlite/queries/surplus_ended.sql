-- surplus_ended: when the last of the ?3 oldest jobs of the queue ?1 in the states ?2 and ?4 had ended, leaving out those with a time of
-- their own: jobs that ended by then are more than the queue keeps.
SELECT max(ended_at) FROM (
    SELECT ended_at FROM (
        SELECT ended_at FROM tenure_jobs
        WHERE ended_at IS NOT NULL AND queue = ?1 AND state = ?2 AND keep_until IS NULL
        UNION ALL
        SELECT ended_at FROM tenure_jobs
        WHERE ended_at IS NOT NULL AND queue = ?1 AND state = ?4 AND keep_until IS NULL
        ORDER BY ended_at
    )
    LIMIT ?3
)
