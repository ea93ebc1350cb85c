-- ended_blockers: those of the jobs in the JSON array ?1 that are final. The first step of a run counts as soon as it has
-- handed over, while the run may still be going on: the caller checks that.
SELECT j.id FROM json_each(?1) AS wanted JOIN tenure_jobs AS j ON j.id = wanted.value WHERE j.ended_at IS NOT NULL
