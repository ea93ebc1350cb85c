-- Schedules: their records, and the indexes `schedule_names` and `ticks`. A record is a MessagePack array:
--
--     [version, active, next, tick, last, seen_at, history, settings, name]
--
-- `last` is the ref of the last job. `history` is a string that contains an array of entries, so that scripts can pass it
-- on without parsing the entries. They never read the settings. The name is at the end because Lua hashes only some bytes
-- of a long string, always including the last one.
--
-- The record is the truth. It is written after `schedule_names`, and `ticks` never has a later time than it says. So a script
-- that is refused a command midway leaves no schedule that is not listed or fires late. It may leave entries of `ticks` that
-- are too early, and entries of both that have no record: `schedules` passes over them.

local Schedules = {
  known = {},  -- schedules that the script has loaded, by name; false if there is no such schedule
  changed = {},  -- names of those to save
}

local HISTORY_LENGTH = 20  -- tenure.core.schedule.HISTORY_LENGTH

-- A time as text that gives the same number again.
function Schedules.time_text(time)
  return string.format('%.17g', time)
end

function Schedules.parse(name, record)
  local at, version, active, next_tick, tick, last, seen_at, history = cmsgpack.unpack_limit(record, 7, 1)
  return {
    name = name,
    record = record,
    version = version,
    active = active,
    next = next_tick,
    tick = tick,
    last = last,
    seen_at = seen_at,
    history = history,
    settings = string.sub(record, at + 1),  -- with the name behind them
  }
end

function Schedules.pack(schedule)
  return '\153' .. cmsgpack.pack(schedule.version, schedule.active, schedule.next, schedule.tick, schedule.last,
    schedule.seen_at, schedule.history) .. schedule.settings
end

-- Load the schedules of these names into `Schedules.known`.
function Schedules.load_all(names)
  for i, record in ipairs(Script.fields_of(Key.schedules, names)) do
    Schedules.known[names[i]] = record and Schedules.parse(names[i], record)
  end
end

-- Set the schedule of a name, or remove it if `schedule` is false. Written by `save_all`.
function Schedules.set(name, schedule)
  Schedules.known[name] = schedule
  Schedules.changed[name] = true
end

-- The tick at which a schedule is due; nil if it is never due.
function Schedules.due_at(schedule)
  return schedule and schedule.active and schedule.next or nil
end

-- Write the entries of these schedules in `ticks`. With `only_earlier`, times are not made later and no entry is removed.
function Schedules.write_ticks(names, only_earlier)
  local ticks, never = {}, {}
  for _, name in ipairs(names) do
    local at = Schedules.due_at(Schedules.known[name])
    if at then
      ticks[#ticks + 1] = Schedules.time_text(at)
      ticks[#ticks + 1] = name
    else
      never[#never + 1] = name
    end
  end
  if not only_earlier then
    Script.call_in_chunks('ZADD', Key.ticks, ticks)
    return Script.call_in_chunks('ZREM', Key.ticks, never)
  end
  for first = 1, #ticks, Script.CHUNK do
    redis.call('ZADD', Key.ticks, 'LT', unpack(ticks, first, math.min(first + Script.CHUNK - 1, #ticks)))
  end
end

-- Write what was set. The order of the commands is explained above.
function Schedules.save_all()
  local names, new_names, records, gone = {}, {}, {}, {}
  for name in pairs(Schedules.changed) do
    local schedule = Schedules.known[name]
    names[#names + 1] = name
    if schedule then
      records[#records + 1] = name
      records[#records + 1] = Schedules.pack(schedule)
      if not schedule.record then
        new_names[#new_names + 1] = 0
        new_names[#new_names + 1] = name
      end
    else
      gone[#gone + 1] = name
    end
  end
  Script.call_in_chunks('ZADD', Key.schedule_names, new_names)
  Schedules.write_ticks(names, true)
  Script.call_in_chunks('HSET', Key.schedules, records)
  Script.call_in_chunks('HDEL', Key.schedules, gone)
  Schedules.write_ticks(names)
  Script.call_in_chunks('ZREM', Key.schedule_names, gone)
end

-- An entry of a history: the tick, what became of it, the time, the job, the job that it replaced, the end of missed ticks.
function Schedules.entry(tick, how, job, replaced, missed_until)
  return '\150' .. cmsgpack.pack(tick, how, Script.now, job, replaced, missed_until)
end

-- An array of this number of entries, which are packed one after the other.
function Schedules.array(number, packed)
  return '\220' .. struct.pack('>I2', number) .. packed
end

-- Add entries to the history of a schedule, which keeps the latest ones.
function Schedules.add_history(schedule, entries)
  local had = (struct.unpack('>I2', schedule.history, 2))
  local first = math.max(1, #entries - HISTORY_LENGTH + 1)
  local added = #entries - first + 1
  local kept = math.min(had, HISTORY_LENGTH - added)
  local at = 3  -- where the kept entries begin, from 0
  if kept == 0 then
    at = #schedule.history
  elseif kept < had then
    at = (cmsgpack.unpack_limit(schedule.history, had - kept, at))
  end
  schedule.history = Schedules.array(kept + added, string.sub(schedule.history, at + 1) .. table.concat(entries, '', first))
end
