-- ahead: how many workers have a beat from the future, and how many leases end later than any can that was given.
-- include: step, totals

local beats, leases = 0, 0
for _, worker in ipairs(redis.call('ZRANGE', Key.workers, 0, -1)) do
  local beat = tonumber(redis.call('HGET', Key.worker .. worker, 'beat'))
  if beat and beat > Step.now + 1 then beats = beats + 1 end
end
for _, queue in ipairs(redis.call('SMEMBERS', Key.queues)) do
  local longest = Totals.longest(queue)
  if longest > 0 then
    leases = leases + redis.call('ZCOUNT', Key.held .. queue, '(' .. Step.score_of(Step.now + longest + 1), '+inf')
  end
end
return { beats, leases }
