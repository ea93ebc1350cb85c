-- put_schedules: create, replace or delete each schedule that has the version which its put names. Others stay as they are.
-- Each put sees those before it.
-- ARGV: time, number of puts; for each { name, version, next, active, whether to set the time of its confirmation } packed,
-- and its settings and name as they end a record, '' to delete it.
-- Returns: 1 for each that was written, else 0.
-- include: script, schedules

local puts, names, written = {}, {}, {}
for i = 1, tonumber(Script.arg()) do
  local put, _ = {}, nil
  _, put.name, put.version, put.next, put.active, put.seen = cmsgpack.unpack_limit(Script.arg(), 5, 1)
  put.settings = Script.arg()
  puts[i], names[i] = put, put.name
end
Schedules.load_all(names)
for i, put in ipairs(puts) do
  local schedule = Schedules.known[put.name]
  local applies = (schedule and schedule.version or 0) == put.version
  if applies and put.settings == '' then
    if schedule then Schedules.set(put.name, false) end
  elseif applies then
    schedule = schedule or { version = 0, seen_at = Script.now, history = Schedules.array(0, '') }
    schedule.version, schedule.settings = schedule.version + 1, put.settings
    schedule.next, schedule.active = put.next, put.active
    if put.seen then schedule.seen_at = Script.now end
    Schedules.set(put.name, schedule)
  end
  written[i] = applies and 1 or 0
end
Schedules.save_all()
return written
