-- future_times: count times that lie further ahead than they can, which shows that the clock was set back: beats of workers
-- in the future, and leases that end later than the longest lease given in their queue. Reads only, one page of `timed` per
-- call; every queue with running jobs is in `timed`.
-- ARGV: time, scan cursor, '0' at first. Workers are counted in the first call only.
-- Returns: number of beats, number of leases, next cursor ('0' at the end).
-- include: script, totals

local QUEUES = 250  -- queues that one call looks at, roughly

local beats, leases, cursor = 0, 0, Script.arg()
if cursor == '0' then
  for _, worker in ipairs(redis.call('ZRANGE', Key.workers, 0, -1)) do
    local beat = tonumber(redis.call('HGET', Key.worker .. worker, 'beat'))
    if beat and beat > Script.now + 1 then beats = beats + 1 end
  end
end
local next_cursor, found = unpack(redis.call('ZSCAN', Key.timed, cursor, 'COUNT', QUEUES))
for i = 1, #found, 2 do
  local queue = found[i]
  local longest = Totals.longest_lease(queue)
  if longest > 0 then
    leases = leases + redis.call('ZCOUNT', Key.held .. queue, '(' .. Script.score_of(Script.now + longest + 1), '+inf')
  end
end
return { beats, leases, next_cursor }
