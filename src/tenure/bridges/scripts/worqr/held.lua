-- Whether each task is in custody and no peer has taken it back: 1 or 0.
-- ARGV: prefix, ids
-- include: custody, processes
local held = {}
for index = 2, #ARGV do
    local header = custody.get(ARGV[index])
    held[#held + 1] = header and redis.call('EXISTS', processes.key(ARGV[1], header[2], ARGV[index])) or 0
end
return held
