-- Take jobs into custody, queue by queue, as many as there are ids. Returns {id, queue, entry} for each.
-- ARGV: prefix, owner, time, number of queues, queues, ids
-- include: custody, progress
local prefix, owner, time, queues = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local next_id, taken = 5 + queues, {}
for index = 5, 4 + queues do
    local queue = ARGV[index]
    while ARGV[next_id] do
        local entry = redis.call('RPOP', progress.jobs(prefix, queue))
        if not entry then break end
        progress.hold(prefix, queue, ARGV[next_id], entry, time)
        custody.take(ARGV[next_id], owner, queue, entry)
        taken[#taken + 1] = {ARGV[next_id], queue, entry}
        next_id = next_id + 1
    end
end
return taken
