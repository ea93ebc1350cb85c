-- nudge: tell each of these registered workers that there is work for it. Arguments: their ids.
-- The message is one that names no job: `taken` is a word that programs of the layouts before know, and for them it means nothing.
-- include: script

for _, worker in ipairs(Script.remaining_args()) do
  local channel = redis.call('HGET', Key.worker .. worker, 'channel')
  if channel then redis.call('PUBLISH', Key.signals .. channel, 'taken ') end
end
return 0
