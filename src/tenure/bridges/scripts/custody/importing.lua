-- Custody of an import: a hash of id → JSON facts, a newline, the entry as it was in its queue. The field '' counts what was ever taken.
-- facts.undo: the commands that return the entry to the front of where it was; facts.finish: those that remove what it left there.
-- A command whose last word is `true` ends with the entry's bytes instead.
local importing = {}

function importing.take(id, facts, entry)
    facts.seq = redis.call('HINCRBY', KEYS[1], '', 1)
    redis.call('HSET', KEYS[1], id, cjson.encode(facts) .. '\n' .. entry)
    return {id, facts.at, facts.name or '', entry}
end

function importing.get(id)
    local stored = redis.call('HGET', KEYS[1], id)
    if not stored then return nil end
    local cut = string.find(stored, '\n', 1, true)
    return cjson.decode(string.sub(stored, 1, cut - 1)), string.sub(stored, cut + 1)
end

function importing.run(commands, entry)
    for _, command in ipairs(commands or {}) do
        if command[#command] == true then command[#command] = entry end
        redis.call(unpack(command))
    end
end

-- Remove an entry from custody, and the hash with the last of them.
function importing.forget(id)
    redis.call('HDEL', KEYS[1], id)
    if redis.call('HLEN', KEYS[1]) == 1 then redis.call('DEL', KEYS[1]) end
end

-- One text from several, each with its length before it; false: there is none.
function importing.joined(texts, count)
    local parts = {}
    for index = 1, count do
        parts[index] = texts[index] and (#texts[index] .. ':' .. texts[index]) or '-'
    end
    return table.concat(parts, ',')
end
