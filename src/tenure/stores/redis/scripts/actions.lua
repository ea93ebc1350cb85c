-- actions: one page of the audit, the latest action first. Reads only.
-- ARGV: time, seconds for which actions are kept, limit, number before which the page begins ('' at first).
-- Returns: entries of `actions`; number of the last one if there are more (false at the end).
-- include: script

local PAGE = 100

local kept, limit, below = tonumber(Script.arg()), tonumber(Script.arg()), tonumber(Script.arg())
local first = redis.call('LINDEX', Key.actions, 0)
if not first then return { {}, false } end
-- The numbers have no gaps, so they tell where in the list an action is.
local index = redis.call('LLEN', Key.actions) - 1
if below then index = math.min(index, below - select(2, cmsgpack.unpack_limit(first, 1, 1)) - 1) end
local found, last = {}, false
while index >= 0 do
  local entries = redis.call('LRANGE', Key.actions, math.max(0, index - PAGE + 1), index)
  for i = #entries, 1, -1 do
    local _, number, at = cmsgpack.unpack_limit(entries[i], 2, 1)
    if at > Script.now - kept then
      if #found == limit then return { found, last } end
      found[#found + 1], last = entries[i], number
    end
  end
  index = index - PAGE
end
return { found, false }
