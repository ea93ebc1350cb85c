-- leases_of: find the jobs that are leased under a nonce, for a caller that lost the reply of `lease`. Reads only.
-- ARGV: time, nonce.
-- Returns: descriptions as `Reading.describe` gives them.
-- include: script, totals, jobs, edges, reading, running_jobs

return Reading.describe_all(RunningJobs.with_field(4, Script.arg(), math.huge))
