-- ids: of some thousand jobs the refs that fit one of these patterns, and from where to go on (0: that was all). It goes over all
-- jobs in steps, because no key has them in the order of their ids.
-- Arguments: from where, the patterns.
-- include: step

local SOME = 5000

local from, found, on = Step.arg(), {}, nil
for pattern in Step.arg do
  local told = redis.call('HSCAN', Key.jobs, from, 'MATCH', pattern, 'COUNT', SOME)
  on = told[1] -- each time the same, for nothing changes in between
  for i = 1, #told[2], 2 do found[#found + 1] = told[2][i] end
end
return { on, found }
