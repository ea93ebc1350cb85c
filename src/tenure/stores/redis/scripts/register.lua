-- register: add a worker to the registry, which counts as its first beat. Registering again resets its totals and its order.
-- ARGV: time, worker id, info (JSON), channel of its store object.
-- include: script, write_when_full

local worker, info, channel = Script.arg(), Script.arg(), Script.arg()
redis.call('DEL', Key.worker .. worker)
redis.call('HSET', Key.worker .. worker, 'info', info, 'channel', channel, 'started', Script.now, 'beat', Script.now)
redis.call('ZADD', Key.workers, Script.draw_seqs(1), worker)  -- a seq, because two workers may start at the same time
