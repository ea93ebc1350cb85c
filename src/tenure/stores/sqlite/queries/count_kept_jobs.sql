-- count_kept_jobs: count the final jobs of the queue ?1 in the states ?2 and ?3 that have a retention time of their own. Steps
-- that have handed over do not count: their keep_until is infinite because they are removed with their run.
SELECT count(*) FROM tenure_jobs WHERE keep_until < 9e999 AND queue = ?1 AND state IN (?2, ?3)
