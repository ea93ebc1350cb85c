-- Add an entry to the back of a queue, or to those that are due at a time. Returns 1, or 0 if it was sent before.
-- ARGV: prefix, queue, entry, seconds since the epoch at which it is due (empty: now), id of the job that sends it (empty: none)
local prefix, queue, entry, at, id = unpack(ARGV)
if id ~= '' and not redis.call('SET', prefix .. ':tenure:sent:' .. id, '1', 'EX', 604800, 'NX') then return 0 end
if at == '' then
    redis.call('SADD', prefix .. ':queues', queue)
    redis.call('RPUSH', prefix .. ':queue:' .. queue, entry)
else
    redis.call('RPUSH', prefix .. ':delayed:' .. at, entry)
    redis.call('SADD', prefix .. ':timestamps:' .. entry, 'delayed:' .. at)
    redis.call('ZADD', prefix .. ':delayed_queue_schedule', at, at)
end
return 1
