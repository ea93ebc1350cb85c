-- record_history: add counts and gauges to rows of the current slot of each resolution. A new slot removes a few slots that
-- are no longer kept. A full server refuses it before anything is done.
-- ARGV: time, most rows of a slot, most types of errors in a row, the name for all beyond; a MessagePack array of writes,
-- each an array of queue, task, counts and gauges; then for each resolution its seconds (0: one slot since ever), and the
-- seconds for which its slots are kept ('': always).
-- include: script

local ROWS, ERRORS, OTHERS = tonumber(Script.arg()), tonumber(Script.arg()), Script.arg()
local OLD_SLOTS = 10  -- slots that a new one removes, at most
local ALL_OTHERS, OTHER_ERRORS = OTHERS .. '\0' .. OTHERS, 'error:' .. OTHERS

local writes, fields = cmsgpack.unpack(Script.arg()), { ALL_OTHERS }
for i, write in ipairs(writes) do fields[i + 1] = write[1] .. '\0' .. write[2] end

local function is_error(name)
  return string.sub(name, 1, 6) == 'error:'
end

-- As `merge_counts` of `tenure.core.measures`.
local function add_counts(counts, added)
  local errors
  for name, number in pairs(added) do
    if not counts[name] and is_error(name) then
      if not errors then
        errors = 0
        for each in pairs(counts) do errors = errors + (is_error(each) and 1 or 0) end
      end
      if errors >= ERRORS then name = OTHER_ERRORS end
      if not counts[name] then errors = errors + 1 end
    end
    counts[name] = (counts[name] or 0) + number
  end
end

-- As `merge_gauges` of `tenure.core.measures`.
local function set_gauges(gauges, later)
  for name, value in pairs(later) do
    gauges[name] = name == 'oldest' and gauges.oldest and math.max(gauges.oldest, value) or value
  end
end

-- A map as MessagePack. An empty table would become an array.
local function packed(map)
  return next(map) and cmsgpack.pack(map) or '\128'
end

-- Add the writes to the rows of a slot, which has `size` of them.
local function add_to(key, size)
  local rows, values = {}, {}
  for i, row in ipairs(size > 0 and Script.fields_of(key, fields) or {}) do
    if row then rows[fields[i]] = rows[fields[i]] or cmsgpack.unpack(row) end
  end
  for i, write in ipairs(writes) do
    local field, _, _, counts, gauges = fields[i + 1], unpack(write)
    if not rows[field] and size >= ROWS then field, gauges = ALL_OTHERS, {} end
    if not rows[field] then rows[field], size = { {}, {} }, size + 1 end
    add_counts(rows[field][1], counts)
    set_gauges(rows[field][2], gauges)
    rows[field].changed = true
  end
  for field, row in pairs(rows) do
    if row.changed then
      values[#values + 1] = field
      values[#values + 1] = '\146' .. packed(row[1]) .. packed(row[2])
    end
  end
  Script.call_in_chunks('HSET', key, values)
end

while Script.args_read < #ARGV do
  local resolution, kept = Script.arg(), tonumber(Script.arg())
  local seconds, index, family = tonumber(resolution), Key.measured .. resolution, Key.measures .. resolution .. ':'
  local slot = string.format('%.0f', seconds > 0 and math.floor(Script.now / seconds) * seconds or 0)
  local size = redis.call('HLEN', family .. slot)
  -- Before the rows: no slot with rows is missing in the index, whichever command is refused.
  if size == 0 then redis.call('ZADD', index, slot, slot) end
  add_to(family .. slot, size)
  if size == 0 and kept then
    local last = string.format('%.17g', Script.now - kept)
    for _, old in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', last, 'LIMIT', 0, OLD_SLOTS)) do
      redis.call('DEL', family .. old)
      redis.call('ZREM', index, old)
    end
  end
end
