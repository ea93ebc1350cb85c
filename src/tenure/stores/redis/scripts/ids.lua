-- ids: of some thousand jobs the refs that fit one of these patterns, and from where to go on (0: that was all). It goes over all
-- jobs in steps, because no key has them in the order of their ids.
-- Arguments: from where, the patterns.
-- include: script

local SCAN_COUNT = 5000

local from, found, next_at = Script.arg(), {}, nil
for pattern in Script.arg do
  local page = redis.call('HSCAN', Key.jobs, from, 'MATCH', pattern, 'COUNT', SCAN_COUNT)
  next_at = page[1] -- each time the same, for nothing changes in between
  for i = 1, #page[2], 2 do found[#found + 1] = page[2][i] end
end
return { next_at, found }
