-- oldest_final_jobs: the ?4 oldest final jobs of the queue ?1 in the states ?2 and ?3, without jobs that have a retention time
-- of their own, as one JSON array.
SELECT json_group_array(json_array(n, id, queue, state, ended_at, waited, claimable)) FROM (
    SELECT n, id, queue, state, ended_at, waited, blocks OR edges OR run_id IS NOT NULL OR (unique_key IS NOT NULL AND window IS NOT NULL) AS claimable
    FROM tenure_jobs WHERE ended_at IS NOT NULL AND queue = ?1 AND state = ?2 AND keep_until IS NULL
    UNION ALL
    SELECT n, id, queue, state, ended_at, waited, blocks OR edges OR run_id IS NOT NULL OR (unique_key IS NOT NULL AND window IS NOT NULL) AS claimable
    FROM tenure_jobs WHERE ended_at IS NOT NULL AND queue = ?1 AND state = ?3 AND keep_until IS NULL
    ORDER BY ended_at, n
    LIMIT ?4
)
