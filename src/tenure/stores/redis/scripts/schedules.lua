-- schedules: read the schedules of these names, those that are due, or all by name. Looking for those that are due costs
-- one command while none is. Reads only, except that entries of `ticks` are corrected if a record contradicts them.
-- ARGV: time, then one of: names, each name; due, number to leave out, limit; all, the name to start after, limit.
-- Returns: records, time, and if those that are due were asked for the tick of the soonest active one, false if there is
-- none.
-- include: script, schedules

local Search = {}

function Search.names()
  local found = {}
  for _, record in ipairs(Script.fields_of(Key.schedules, Script.remaining_args())) do
    if record then found[#found + 1] = record end
  end
  return found, false
end

-- Of these schedules, the records of those that are due, and the names of the others.
local function split_due(names)
  local due, others = {}, {}
  Schedules.load_all(names)
  for _, name in ipairs(names) do
    local at = Schedules.due_at(Schedules.known[name])
    if at and at <= Script.now then due[#due + 1] = Schedules.known[name].record else others[#others + 1] = name end
  end
  return due, others
end

function Search.due()
  local skip, limit = Script.arg(), Script.arg()
  while true do
    local soonest = redis.call('ZRANGE', Key.ticks, 0, 0, 'WITHSCORES')[2]
    if not soonest or tonumber(soonest) > Script.now then return {}, soonest or false end
    local names = redis.call('ZRANGEBYSCORE', Key.ticks, '-inf', Schedules.time_text(Script.now), 'LIMIT', skip, limit)
    local due, others = split_due(names)
    if #others == 0 then return due, soonest end
-- include: write_when_full
    Schedules.write_ticks(others)
  end
end

function Search.all()
  local after, limit, found = Script.arg(), tonumber(Script.arg()), {}
  while true do
    local wanted = limit - #found
    local names = redis.call('ZRANGEBYLEX', Key.schedule_names, '(' .. after, '+', 'LIMIT', 0, wanted)
    for _, record in ipairs(Script.fields_of(Key.schedules, names)) do
      if record then found[#found + 1] = record end
    end
    if #names < wanted or #found == limit then return found, false end
    after = names[#names]
  end
end

local found, soonest = Search[Script.arg()]()
return { found, Schedules.time_text(Script.now), soonest }
