-- jobs_past_keep: up to ?2 final jobs whose own retention time has ended by ?1, as one JSON array, the earliest end first.
SELECT json_group_array(json_array(n, id, queue, state, ended_at, waited, claimable)) FROM (
    SELECT n, id, queue, state, ended_at, waited, blocks OR edges OR run_id IS NOT NULL OR (unique_key IS NOT NULL AND window IS NOT NULL) AS claimable
    FROM tenure_jobs WHERE keep_until IS NOT NULL AND keep_until <= ?1
    ORDER BY keep_until
    LIMIT ?2
)
