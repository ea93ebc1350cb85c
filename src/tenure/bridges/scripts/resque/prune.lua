-- Unregister a worker whose heartbeat is still the given one, and fail its job. Returns 1 if it did.
-- ARGV: prefix, id, its heartbeat, its record (empty: it is idle), what `failed` says of its job, before and after the time
-- include: calendar, unregistered
local prefix, id, heartbeat, record, before, after = unpack(ARGV)
if redis.call('HGET', prefix .. ':workers:heartbeat', id) ~= heartbeat then return 0 end
if (redis.call('GET', prefix .. ':worker:' .. id) or '') ~= record then return 0 end
if after ~= '' then
    redis.call('RPUSH', prefix .. ':failed', before .. dated('%04d/%02d/%02d %02d:%02d:%02d UTC', now()) .. after)
end
unregistered(prefix, id)
return 1
