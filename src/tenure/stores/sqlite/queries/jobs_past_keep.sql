-- jobs_past_keep: final jobs whose own time of keeping is over at ?1, as one JSON array.
SELECT json_group_array(json_array(n, id, queue, state, ended_at, waited, claimable)) FROM (
    SELECT n, id, queue, state, ended_at, waited, blocks OR edges OR run_id IS NOT NULL OR (unique_key IS NOT NULL AND window IS NOT NULL) AS claimable
    FROM tenure_jobs WHERE keep_until IS NOT NULL AND keep_until <= ?1
    ORDER BY keep_until
    LIMIT ?2
)
