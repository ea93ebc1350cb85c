-- runs: one page of runs, newest first. Looks at no more than 2,000 runs. Reads only.
-- ARGV: time, flow ('' for any), state of the current step (-1 for any), limit, cursor ('' at first); then name and value
-- of a lookup, if the runs are to be found by one.
-- Returns: runs as `RunReading.describe` gives them, next cursor (false at the end), number of runs looked at.
-- include: script, totals, jobs, flows, runs, edges, reading, run_reading

local flow, state, limit, before = Script.arg(), tonumber(Script.arg()), tonumber(Script.arg()), tonumber(Script.arg())
local name, value = Script.arg(), Script.arg()

local MAX_ROWS, PAGE = 2000, 100

-- The next page of a flow's runs with a number below this one: number and ref in turn.
local function read_page(each, below)
  local found = {}
  if not name then
    local rows = redis.call('ZREVRANGEBYSCORE', Key.flow .. each, '(' .. string.format('%.0f', below), '-inf', 'WITHSCORES',
      'LIMIT', 0, PAGE)
    for i = 1, #rows, 2 do found[i], found[i + 1] = tonumber(rows[i + 1]), rows[i] end
    return found
  end
  local first = Flows.lookup_prefix(each, name, value)
  local entries = redis.call('ZREVRANGEBYLEX', Key.lookups, '(' .. first .. Script.seq_of(below), '[' .. first, 'LIMIT', 0, PAGE)
  for i, entry in ipairs(entries) do
    found[2 * i - 1], found[2 * i] = struct.unpack('>I6', entry, #first + 1), string.sub(entry, #first + 7)
  end
  return found
end

-- An iterator over the runs of a flow.
local function walk(each)
  local below, page, at = before or 2 ^ 48 - 1, {}, 1
  return function()
    if at > #page then page, at = read_page(each, below), 1 end
    if not page[at] then return end
    below, at = page[at], at + 2
    return { number = below, ref = page[at - 1] }
  end
end

local walks, heads = {}, {}
for i, each in ipairs(flow ~= '' and { flow } or redis.call('SMEMBERS', Key.flows)) do
  walks[i] = walk(each)
  heads[i] = walks[i]() or false
end

local function newest()
  local first
  for i, head in ipairs(heads) do
    if head and (not first or head.number > heads[first].number) then first = i end
  end
  if not first then return end
  local found = heads[first]
  heads[first] = walks[first]() or false
  return found
end

local runs, looked_at, last = {}, 0, nil
while true do
  local found = newest()
  if not found then return { runs, false, looked_at } end
  if #runs == limit or looked_at == MAX_ROWS then return { runs, last, looked_at } end
  looked_at, last = looked_at + 1, string.format('%.0f', found.number)
  local described = RunReading.describe(found.ref)
  if described and (state < 0 or Jobs.load(described[5][1]).state == state) then runs[#runs + 1] = described end
end
