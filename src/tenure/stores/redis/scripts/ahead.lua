-- ahead: how many workers have a beat from the future, and how many leases end later than any can that was given. Looks at a page of
-- the queues that `timed` has, which are all in which jobs are held; answers where to go on too, 0 at the end.
-- Arguments: where to go on, 0 at first; then alone it looks at workers.
-- include: step, totals

local QUEUES = 250  -- that one step looks at, about

local beats, leases, at = 0, 0, Step.arg()
if at == '0' then
  for _, worker in ipairs(redis.call('ZRANGE', Key.workers, 0, -1)) do
    local beat = tonumber(redis.call('HGET', Key.worker .. worker, 'beat'))
    if beat and beat > Step.now + 1 then beats = beats + 1 end
  end
end
local next_at, found = unpack(redis.call('ZSCAN', Key.timed, at, 'COUNT', QUEUES))
for i = 1, #found, 2 do
  local queue = found[i]
  local longest = Totals.longest(queue)
  if longest > 0 then
    leases = leases + redis.call('ZCOUNT', Key.held .. queue, '(' .. Step.score_of(Step.now + longest + 1), '+inf')
  end
end
return { beats, leases, next_at }
