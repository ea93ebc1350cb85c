-- Resque: a slot is a worker, with a heartbeat for Ruby and a ping for Node. An id is host:pid+slot:queues.
local prefix = ARGV[1]
local owners = prefix .. ':tenure:workers'

local function registered(id)
    local seconds = now()
    local name, queues = string.match(id, '^([^:]*:[^:]*):(.*)$')
    redis.call('HSET', prefix .. ':workers:heartbeat', id, dated('%04d-%02d-%02dT%02d:%02d:%02d+00:00', seconds))
    redis.call(
        'SET', prefix .. ':worker:ping:' .. name,
        '{"time":' .. string.format('%d', seconds) .. ',"name":' .. quoted(name) .. ',"queues":' .. quoted(queues) .. '}'
    )
    redis.call('SADD', prefix .. ':workers', id)
    local started = prefix .. ':worker:' .. id .. ':started'
    if redis.call('EXISTS', started) == 0 then
        redis.call('SET', started, dated('%04d-%02d-%02d %02d:%02d:%02d +0000', seconds))
    end
end
