-- held: jobs that are leased under a nonce.
-- Arguments: the nonce. Answers: as `describe` does.
-- include: script, totals, jobs, edges, reading, running_jobs

return Reading.describe_all(RunningJobs.with_field(4, Script.arg(), math.huge))
