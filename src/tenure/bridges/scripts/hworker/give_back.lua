-- Return jobs to the front of their queues, the first of them foremost. A job that a monitor has taken back is left alone.
-- ARGV: prefix, ids
-- include: custody, progress
local prefix = ARGV[1]
for index = #ARGV, 2, -1 do
    local id = ARGV[index]
    local header, entry = custody.get(id)
    if header then
        if progress.release(prefix, header[2], id, entry) then
            redis.call('RPUSH', progress.jobs(prefix, header[2]), entry)
        end
        custody.drop(id)
    end
end
