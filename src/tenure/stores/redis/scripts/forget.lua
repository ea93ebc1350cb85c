-- forget: remove each of these workers that has been silent for so many seconds and holds no job; which went, in order.
-- Arguments: of each its id and the seconds.
-- include: script, write_when_full

local gone = {}
while Script.args_read < #ARGV do
  local worker, silence = Script.arg(), tonumber(Script.arg())
  local beat = tonumber(redis.call('HGET', Key.worker .. worker, 'beat'))
  if beat and math.abs(Script.now - beat) >= silence and redis.call('HEXISTS', Key.holding, worker) == 0 then
    redis.call('DEL', Key.worker .. worker)
    redis.call('ZREM', Key.workers, worker)
    gone[#gone + 1] = worker
  end
end
return gone
