-- queues: the counts of one page of queues. Reads only.
-- ARGV: time, scan cursor ('0' at first).
-- Returns: next cursor ('0' at the end); for each queue { name, 1 if paused, number in line, scheduled, blocked, running,
-- succeeded, failed, cancelled, broken, totals (name and number in turn) }.
-- include: script, totals, jobs

local found = {}
local next_cursor, queues = unpack(redis.call('SSCAN', Key.queues, Script.arg(), 'COUNT', 50))
for i, queue in ipairs(queues) do
  local function number(...)
    local all = 0
    for _, family in ipairs({ ... }) do all = all + redis.call('ZCARD', family .. queue) end
    return all
  end
  local info = {
    queue, redis.call('SISMEMBER', Key.paused, queue),
    number(Key.line, Key.suspects), number(Key.scheduled), number(Key.blocked), number(Key.held),
  }
  for state = is.succeeded, is.broken do
    info[#info + 1] = number(Key.ended .. name_of[state] .. ':', Key.apart .. name_of[state] .. ':')
  end
  info[#info + 1] = redis.call('HGETALL', Key.totals .. queue)
  found[i] = info
end
return { next_cursor, found }
