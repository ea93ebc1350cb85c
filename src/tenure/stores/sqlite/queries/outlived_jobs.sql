-- outlived_jobs: final jobs whose own time of keeping is over at ?1.
SELECT id FROM tenure_jobs WHERE keep_until IS NOT NULL AND keep_until <= ?1 LIMIT ?2
