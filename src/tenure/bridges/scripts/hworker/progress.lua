-- Names of hworker's keys, and the hold on an entry: the time that this bridge has written last under the entry in the hash
-- `progress`. A monitor that takes the entry back removes it, and a worker that then takes it writes another time.
local progress = {}

function progress.key(prefix, queue) return prefix .. '-progress-' .. queue end

function progress.jobs(prefix, queue) return prefix .. '-jobs-' .. queue end

function progress.hold(prefix, queue, id, entry, time)
    redis.call('HSET', progress.key(prefix, queue), entry, time)
    redis.call('HSET', prefix .. ':tenure:holds', id, time)
end

function progress.held(prefix, queue, id, entry)
    local ours = redis.call('HGET', prefix .. ':tenure:holds', id)
    return ours and redis.call('HGET', progress.key(prefix, queue), entry) == ours
end

-- Whether the entry was held; it no longer is.
function progress.release(prefix, queue, id, entry)
    local held = progress.held(prefix, queue, id, entry)
    if held then redis.call('HDEL', progress.key(prefix, queue), entry) end
    redis.call('HDEL', prefix .. ':tenure:holds', id)
    return held
end
