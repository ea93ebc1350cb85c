-- held: jobs that are leased under a nonce.
-- Arguments: the nonce. Answers: as `describe` does.
-- include: step, totals, jobs, edges, reading, running

return Reading.describe_all(Running.with(4, Step.arg(), math.huge))
