-- forget: remove workers from the registry that have been silent for the given time and hold no job.
-- ARGV: time, then for each worker its id and the seconds of silence.
-- Returns: ids of the removed workers, in the order given.
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
