-- workers: list the registry, by start: of each its id, the seconds since its last beat, and all that it has.
-- include: step

local found = {}
for i, worker in ipairs(redis.call('ZRANGE', Key.workers, 0, -1)) do
  local silent_for = Step.now - redis.call('HGET', Key.worker .. worker, 'beat')
  found[i] = { worker, string.format('%.17g', silent_for), redis.call('HGETALL', Key.worker .. worker) }
end
return found
