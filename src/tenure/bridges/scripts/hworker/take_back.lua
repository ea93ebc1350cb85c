-- Return jobs whose holder has been silent for too long to the front of their queue, if their time is still the one that was
-- seen. Returns how many.
-- ARGV: prefix, queue, then for each the entry and the time that was seen
local progress, count = ARGV[1] .. '-progress-' .. ARGV[2], 0
for index = 3, #ARGV, 2 do
    if redis.call('HGET', progress, ARGV[index]) == ARGV[index + 1] then
        redis.call('HDEL', progress, ARGV[index])
        redis.call('RPUSH', ARGV[1] .. '-jobs-' .. ARGV[2], ARGV[index])
        count = count + 1
    end
end
return count
