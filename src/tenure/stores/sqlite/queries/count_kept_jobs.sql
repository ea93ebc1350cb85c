-- count_kept_jobs: how many final jobs of the queue ?1 in the states ?2 and ?3 have a time of keeping of their own. Steps that have handed
-- over have none, though it looks so.
SELECT count(*) FROM tenure_jobs WHERE keep_until < 9e999 AND queue = ?1 AND state IN (?2, ?3)
