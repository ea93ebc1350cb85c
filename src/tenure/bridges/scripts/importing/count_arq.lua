-- How many jobs of a sorted set are due, are scheduled for later, and are run by a worker. Changes nothing.
-- ARGV: sorted set, now in milliseconds
local counts = {0, 0, 0}
local found = redis.call('ZRANGE', ARGV[1], 0, -1, 'WITHSCORES')
for index = 1, #found, 2 do
    local kind = tonumber(found[index + 1]) > tonumber(ARGV[2]) and 2 or 1
    if redis.call('EXISTS', 'arq:in-progress:' .. found[index]) == 1 then kind = 3 end
    counts[kind] = counts[kind] + 1
end
return counts
