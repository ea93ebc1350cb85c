-- Take entries of a sorted set into custody, the lowest score first, as many as there are ids. Returns {id, at, name, entry} for each.
-- ARGV: sorted set, part, queue, ids
-- include: importing
local taken = {}
for index = 4, #ARGV do
    local found = redis.call('ZRANGE', ARGV[1], 0, 0, 'WITHSCORES')
    local entry, score = found[1], found[2]
    if not entry then break end
    redis.call('ZREM', ARGV[1], entry)
    local facts = {part = ARGV[2], queue = ARGV[3], at = score, undo = {{'ZADD', ARGV[1], score, true}}}
    taken[#taken + 1] = importing.take(ARGV[index], facts, entry)
end
return taken
