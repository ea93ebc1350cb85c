-- history: one page of rows of the history of measures, by slot. Reads only.
-- ARGV: time, seconds of a slot (0: the one since ever), seconds for which such slots are kept ('': always), score of the
-- first slot, bound of the last one, which rows (`one`, `queues` or `tasks`), field of the one row.
-- Returns: slot, field and row in turn; score of the first slot of the next page, false at the end.
-- include: script

local ENOUGH = 1000  -- rows that one call looks at, roughly

local resolution, kept, since, before = Script.arg(), tonumber(Script.arg()) or math.huge, Script.arg(), Script.arg()
local which, field = Script.arg(), Script.arg()

-- Fields and rows of a slot in turn.
local function rows_of(key)
  if which ~= 'one' then return redis.call('HGETALL', key) end
  local row = redis.call('HGET', key, field)
  return row and { field, row } or {}
end

-- Whether a field, queue + NUL + task, is one of those to read.
local function is_wanted(name)
  if which == 'one' then return true end
  local has_task = string.byte(name, -1) ~= 0
  if which == 'tasks' then return has_task end
  return not has_task and #name > 1
end

local found, looked_at = {}, 0
local slots = redis.call('ZRANGEBYSCORE', Key.measured .. resolution, since, '(' .. before, 'LIMIT', 0, ENOUGH)
for i, slot in ipairs(slots) do
  if tonumber(slot) > Script.now - kept then
    local rows = rows_of(Key.measures .. resolution .. ':' .. slot)
    for n = 1, #rows, 2 do
      if is_wanted(rows[n]) then
        local at = #found
        found[at + 1], found[at + 2], found[at + 3] = slot, rows[n], rows[n + 1]
      end
    end
    looked_at = looked_at + #rows / 2
  end
  if looked_at >= ENOUGH or i == ENOUGH then return { found, '(' .. slot } end
end
return { found, false }
