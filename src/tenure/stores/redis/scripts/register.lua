-- register: enter a worker, which counts as its first beat; one that registers again starts anew.
-- Arguments: its id, what it says of itself, the channel of its store object.
-- include: script, write_when_full

local worker, info, channel = Script.arg(), Script.arg(), Script.arg()
redis.call('DEL', Key.worker .. worker)
redis.call('HSET', Key.worker .. worker, 'info', info, 'channel', channel, 'started', Script.now, 'beat', Script.now)
redis.call('ZADD', Key.workers, Script.draw_seqs(1), worker)  -- two may start at the same time
