-- register: enter a worker, which counts as its first beat; one that registers again starts anew.
-- Arguments: its id, what it says of itself, the channel of its store object.
-- include: step, draining

local worker, info, channel = Step.arg(), Step.arg(), Step.arg()
redis.call('DEL', Key.worker .. worker)
redis.call('HSET', Key.worker .. worker, 'info', info, 'channel', channel, 'started', Step.now, 'beat', Step.now)
redis.call('ZADD', Key.workers, Step.draw(1), worker)  -- two may start at the same time
