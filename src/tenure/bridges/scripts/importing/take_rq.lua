-- Take jobs of a list or sorted set into custody, as many as there are ids. Returns {id, at, name, entry} for each.
-- The entry is the job's fields in the order given, and then the number of jobs that wait for it.
-- ARGV: key, its type (list or zset), part, queue, number of fields, fields, ids
-- include: importing
local key, is_list, count = ARGV[1], ARGV[2] == 'list', tonumber(ARGV[5])
local fields, taken = {}, {}
for index = 6, 5 + count do fields[#fields + 1] = ARGV[index] end
for index = 6 + count, #ARGV do
    local name, score
    if is_list then
        name, score = redis.call('LPOP', key), ''
    else
        local found = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
        name, score = found[1], found[2]
        if name then redis.call('ZREM', key, name) end
    end
    if not name then break end
    local job = 'rq:job:' .. name
    local texts = redis.call('HMGET', job, unpack(fields))
    texts[count + 1] = tostring(redis.call('SCARD', job .. ':dependents'))
    local facts = {part = ARGV[3], queue = ARGV[4], at = score, name = name,
        undo = {is_list and {'LPUSH', key, name} or {'ZADD', key, score, name}},
        finish = {{'DEL', job, job .. ':dependents'}}}
    taken[#taken + 1] = importing.take(ARGV[index], facts, importing.joined(texts, count + 1))
end
return taken
