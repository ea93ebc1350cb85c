-- Drop the custody of tasks that a peer has taken back.
-- ARGV: prefix, ids
-- include: custody, processes
for index = 2, #ARGV do
    local id = ARGV[index]
    local header = custody.get(id)
    if header then
        redis.call('SREM', processes.set(ARGV[1], header[1], header[2]), processes.id(header[2], id))
        custody.drop(id)
    end
end
