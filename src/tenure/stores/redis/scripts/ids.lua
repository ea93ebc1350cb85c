-- ids: find refs that match one of these patterns. Scans all jobs, some thousands per call, because no key orders jobs by
-- id. Reads only. A job may be found twice.
-- ARGV: time, scan cursor ('0' at first), patterns.
-- Returns: next cursor ('0' at the end), refs.
-- include: script

local SCAN_COUNT = 5000

local cursor, found, next_cursor = Script.arg(), {}, nil
for pattern in Script.arg do
  local page = redis.call('HSCAN', Key.jobs, cursor, 'MATCH', pattern, 'COUNT', SCAN_COUNT)
  next_cursor = page[1]  -- the same for each pattern, because nothing changes between the scans
  for i = 1, #page[2], 2 do found[#found + 1] = page[2][i] end
end
return { next_cursor, found }
