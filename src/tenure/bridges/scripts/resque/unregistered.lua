-- Resque: remove everything that a worker has registered.
local function unregistered(prefix, id)
    local name = string.match(id, '^([^:]*:[^:]*):') or id
    redis.call('SREM', prefix .. ':workers', id)
    redis.call('DEL', prefix .. ':worker:' .. id)
    redis.call('DEL', prefix .. ':worker:' .. id .. ':started')
    redis.call('HDEL', prefix .. ':workers:heartbeat', id)
    redis.call('DEL', prefix .. ':worker:ping:' .. name)
    redis.call('DEL', prefix .. ':stat:processed:' .. id)
    redis.call('DEL', prefix .. ':stat:failed:' .. id)
end
