-- Take entries from one end of a list into custody, as many as there are ids. Returns {id, at, name, entry} for each.
-- ARGV: list, its first end (LEFT or RIGHT), list to return them to, part, queue, ids
-- include: importing
local list, left, back = ARGV[1], ARGV[2] == 'LEFT', ARGV[3]
local taken = {}
for index = 6, #ARGV do
    local entry = redis.call(left and 'LPOP' or 'RPOP', list)
    if not entry then break end
    local facts = {part = ARGV[4], queue = ARGV[5], at = '', undo = {{left and 'LPUSH' or 'RPUSH', back, true}}}
    taken[#taken + 1] = importing.take(ARGV[index], facts, entry)
end
return taken
