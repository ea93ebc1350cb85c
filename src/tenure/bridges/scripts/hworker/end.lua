-- Write the ends of jobs that are in custody, unless a monitor has taken them back. Returns the ids of those that it has.
-- ARGV: prefix, time, then for each its id, what to do (drop, retry, fail, break) and the length of the list of failures
-- include: custody, progress
local prefix, time, lost = ARGV[1], ARGV[2], {}
for index = 3, #ARGV, 3 do
    local id, verdict, size = ARGV[index], ARGV[index + 1], tonumber(ARGV[index + 2])
    local header, entry = custody.get(id)
    if header then
        local queue = header[2]
        if not progress.release(prefix, queue, id, entry) then
            lost[#lost + 1] = id
        elseif verdict == 'retry' then
            redis.call('LPUSH', progress.jobs(prefix, queue), entry)
        elseif verdict == 'fail' then
            redis.call('LPUSH', prefix .. '-failed-' .. queue, entry)
            redis.call('LTRIM', prefix .. '-failed-' .. queue, 0, size - 1)
        elseif verdict == 'break' then
            redis.call('HSET', prefix .. '-broken-' .. queue, entry, time)
        end
        custody.drop(id)
    end
end
return lost
