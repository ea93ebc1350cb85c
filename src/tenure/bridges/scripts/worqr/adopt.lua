-- Change the owner of a task, if it still has the old one. Returns 1 if it did.
-- ARGV: prefix, id, old owner, new owner
-- include: custody, processes
local prefix, id, old, new = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local header, task = custody.get(id)
if not header or header[1] ~= old then return 0 end
header[1] = new
custody.put(id, header, task)
local queue = header[2]
redis.call('SREM', processes.set(prefix, old, queue), processes.id(queue, id))
if redis.call('EXISTS', processes.key(prefix, queue, id)) == 1 then
    redis.call('SADD', processes.set(prefix, new, queue), processes.id(queue, id))
end
return 1
