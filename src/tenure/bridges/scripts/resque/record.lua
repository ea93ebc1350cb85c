-- Write what became of entries: ends (counted, failures listed), then slots that no longer run theirs, then those that began.
-- An entry that is not in custody has been ended before: nothing is written for it.
-- ARGV: prefix, number of ends, number of slots that stopped;
--   for each end: id, the slot that wrote it, 1 if that slot ran it, what the failure says (empty for none), its payload if not the entry;
--   the slots that stopped; for each that began: id, slot
-- include: custody, calendar, text
local prefix, ends, stopped = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local seconds, place = now(), 4

local function count(what, slot)
    redis.call('INCRBY', prefix .. ':stat:' .. what, 1)
    redis.call('INCRBY', prefix .. ':stat:' .. what .. ':' .. slot, 1)
end

for _ = 1, ends do
    local id, slot, ran, failure, payload = unpack(ARGV, place, place + 4)
    place = place + 5
    local header, entry = custody.get(id)
    if header then
        custody.drop(id)
        if failure ~= '' then
            if payload == '' then payload = entry end
            redis.call(
                'RPUSH', prefix .. ':failed',
                '{"failed_at":"' .. dated('%04d/%02d/%02d %02d:%02d:%02d UTC', seconds) .. '","payload":' .. payload .. ',' .. failure
                    .. ',"worker":' .. quoted(slot) .. ',"queue":' .. quoted(header[2]) .. '}'
            )
        end
        if ran == '1' then redis.call('DEL', prefix .. ':worker:' .. slot) end
        if failure ~= '' then count('failed', slot) end
        count('processed', slot)
    elseif ran == '1' then
        redis.call('DEL', prefix .. ':worker:' .. slot)
    end
end
for _ = 1, stopped do
    redis.call('DEL', prefix .. ':worker:' .. ARGV[place])
    place = place + 1
end
while ARGV[place] do
    local header, entry = custody.get(ARGV[place])
    local slot = ARGV[place + 1]
    if header then
        redis.call(
            'SET', prefix .. ':worker:' .. slot,
            '{"queue":' .. quoted(header[2]) .. ',"run_at":"' .. dated('%04d-%02d-%02dT%02d:%02d:%02dZ', seconds) .. '","payload":' .. entry
                .. ',"worker":' .. quoted(string.match(slot, '^([^:]*:[^:]*):')) .. '}'
        )
    end
    place = place + 2
end
