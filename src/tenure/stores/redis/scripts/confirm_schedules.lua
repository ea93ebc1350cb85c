-- confirm_schedules: set the time at which these schedules were last confirmed to now, and change nothing else. A full
-- server allows it.
-- ARGV: time, names.
-- Returns: 1 for each that exists, else 0.
-- include: script, write_when_full, schedules

local names, found = Script.remaining_args(), {}
Schedules.load_all(names)
for i, name in ipairs(names) do
  local schedule = Schedules.known[name]
  if schedule then
    schedule.seen_at = Script.now
    Schedules.set(name, schedule)
  end
  found[i] = schedule and 1 or 0
end
Schedules.save_all()
return found
