-- Create a job: its hash, its look-up lists, and its place in the first queue. Does nothing if a job of this id exists.
-- ARGV: flow, queue, id, seconds after which it expires, number of look-up lists, these, attributes and their texts
-- include: keys
local queue, id, seconds, lists = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local hash = hash_of(queue, id)
if redis.call('EXISTS', hash) == 1 then return end
for from = 6 + lists, #ARGV, 1000 do
    redis.call('HSET', hash, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
redis.call('EXPIRE', hash, seconds)
for index = 6, 5 + lists do
    redis.call('RPUSH', ARGV[index], id)
    redis.call('EXPIRE', ARGV[index], seconds)
end
redis.call('RPUSH', list_of(queue, 'waiting'), id)
