-- workers: list the registry in order of registration. Reads only. A beat in the future, because the clock was set back,
-- counts as silence of that length.
-- ARGV: time.
-- Returns: for each worker { id, seconds since its last beat, fields and values of its hash }.
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
