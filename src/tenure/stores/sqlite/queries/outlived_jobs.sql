-- outlived_jobs: final jobs whose own time of keeping is over at ?1.
SELECT id, queue, state, ended_at, waited, blocks OR (unique_key IS NOT NULL AND window IS NOT NULL)
FROM tenure_jobs WHERE keep_until IS NOT NULL AND keep_until <= ?1 ORDER BY keep_until LIMIT ?2
