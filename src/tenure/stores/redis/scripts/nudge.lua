-- nudge: notify each of these registered workers that it may have work.
-- ARGV: time, worker ids.
-- The message is `taken` without a ref, because programs of earlier layouts know that word and ignore it without a ref.
-- include: script

for _, worker in ipairs(Script.remaining_args()) do
  local channel = redis.call('HGET', Key.worker .. worker, 'channel')
  if channel then redis.call('PUBLISH', Key.signals .. channel, 'taken ') end
end
return 0
