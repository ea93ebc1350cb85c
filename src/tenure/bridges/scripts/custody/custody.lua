-- Custody: a hash of job id → JSON [owner, queue, seconds, returning], a newline, the entry as it was in its queue.
local custody = {}

function custody.take(id, owner, queue, entry)
    local header = cjson.encode({owner, queue, tonumber(redis.call('TIME')[1]), false})
    redis.call('HSET', KEYS[1], id, header .. '\n' .. entry)
end

-- The entry in custody under this id: {owner, queue, seconds, returning}, and its bytes; nil if there is none.
function custody.get(id)
    local stored = redis.call('HGET', KEYS[1], id)
    if not stored then return nil end
    local cut = string.find(stored, '\n', 1, true)
    return cjson.decode(string.sub(stored, 1, cut - 1)), string.sub(stored, cut + 1)
end

function custody.put(id, header, entry)
    redis.call('HSET', KEYS[1], id, cjson.encode(header) .. '\n' .. entry)
end

-- Whether the entry was in custody; it no longer is.
function custody.drop(id)
    return redis.call('HDEL', KEYS[1], id) == 1
end
