-- note_actions: enter what operators have done in the audit. Only the latest actions are kept, and none for too long.
-- ARGV: time, number of actions to keep, seconds to keep them, actions (JSON).
-- include: script, write_when_full

local most, kept = tonumber(Script.arg()), tonumber(Script.arg())
local last, entries = redis.call('LINDEX', Key.actions, -1), {}
local number = last and select(2, cmsgpack.unpack_limit(last, 1, 1)) or 0
for i, action in ipairs(Script.remaining_args()) do entries[i] = '\147' .. cmsgpack.pack(number + i, Script.now, action) end
Script.call_in_chunks('RPUSH', Key.actions, entries)
local surplus = redis.call('LLEN', Key.actions) - most
if surplus > 0 then redis.call('LPOP', Key.actions, surplus) end
-- The oldest ones, some more than came in. The last one stays, because its number goes on.
for _ = 1, #entries + 1 do
  local first = redis.call('LRANGE', Key.actions, 0, 1)
  if not first[2] or select(3, cmsgpack.unpack_limit(first[1], 2, 1)) > Script.now - kept then break end
  redis.call('LPOP', Key.actions)
end
