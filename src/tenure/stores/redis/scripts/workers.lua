-- workers: list the registry, by start: of each its id, the seconds since its last beat, and all that it has. A beat from the future,
-- by a clock that was set back since, counts as silence of as many seconds.
-- include: script

local found = {}
for _, worker in ipairs(redis.call('ZRANGE', Key.workers, 0, -1)) do
  local beat = tonumber(redis.call('HGET', Key.worker .. worker, 'beat'))
  if beat then
    local silent_for = string.format('%.17g', math.abs(Script.now - beat))
    found[#found + 1] = { worker, silent_for, redis.call('HGETALL', Key.worker .. worker) }
  end
end
return found
