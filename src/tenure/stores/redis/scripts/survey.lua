-- survey: find queues with work that no index knows: queues changed by programs of an earlier version, and inboxes filled
-- by other programs. Each call looks at the next page of queues and keys. One worker calls it once a second for all.
-- ARGV: time.
-- Returns: 1.
-- include: script, write_when_full, queue_index

local QUEUES, KEYS_EACH = 200, 2000  -- queues and keys that one call looks at, roughly

local queue_cursor, key_cursor = unpack(redis.call('HMGET', Key.meta, 'survey:queues', 'survey:keys'))
local next_queue_cursor, names = unpack(redis.call('SSCAN', Key.queues, queue_cursor or '0', 'COUNT', QUEUES))
for _, queue in ipairs(names) do QueueIndex.refresh(queue) end

-- Skipped if this user may not run SCAN: then inboxes of queues that no program has named stay unknown.
local inboxes = Key.inbox
local found = redis.pcall('SCAN', key_cursor or '0', 'MATCH', inboxes .. '*', 'COUNT', KEYS_EACH)
if not found.err then
  for _, key in ipairs(found[2]) do
    local queue = string.sub(key, #inboxes + 1)
    if string.find(queue, '^%w[%w_.:-]*$') and #queue <= 127 then
      Script.register_queue(queue)
      redis.call('ZADD', Key.ready, 0, queue)
    end
  end
end
redis.call('HSET', Key.meta, 'survey:queues', next_queue_cursor, 'survey:keys', found.err and '0' or found[1])
return 1
