-- Take entries into custody, queue by queue, as many as there are ids, unless all workers are to pause. What was put aside comes first.
-- Returns {state, {id, queue, entry} for each, names of all queues if they were asked for}. The state is 'paused', 'unknown' if the
-- worker is not registered, or 'taken'; only then there are entries.
-- ARGV: prefix, owner, id of the owner's first slot (empty: it need not be registered), 1 to ask for all queues, number of queues,
--   queues, ids
-- include: custody
local prefix, owner, slot, queues = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local names = ARGV[4] == '1' and redis.call('SMEMBERS', prefix .. ':queues') or {}
local paused = redis.call('GET', prefix .. ':pause-all-workers')
if paused and string.lower(string.match(paused, '^%s*(.-)%s*$')) == 'true' then return {'paused', {}, names} end
if slot ~= '' and redis.call('HGET', prefix .. ':tenure:workers', slot) ~= owner then return {'unknown', {}, names} end
local next_id, taken = 6 + queues, {}
for index = 6, 5 + queues do
    local queue = ARGV[index]
    local aside = true
    while ARGV[next_id] do
        local entry = aside and redis.call('LPOP', prefix .. ':tenure:arrived:' .. queue)
        if not entry then
            aside = false
            entry = redis.call('LPOP', prefix .. ':queue:' .. queue)
        end
        if not entry then break end
        custody.take(ARGV[next_id], owner, queue, entry)
        taken[#taken + 1] = {ARGV[next_id], queue, entry}
        next_id = next_id + 1
    end
end
return {'taken', taken, names}
