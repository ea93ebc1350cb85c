-- held: jobs that are leased under a nonce.
-- Arguments: the nonce. Answers: as `describe` does.
-- include: step, totals, jobs, edges, reading, running

local places, refs = Running.with(4, Step.arg(), math.huge), {}
for i = 1, #places do refs[i] = string.sub(places[i], 7) end
return Reading.describe_all(refs)
