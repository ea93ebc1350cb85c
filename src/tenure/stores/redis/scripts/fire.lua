-- fire: fire ticks of each schedule that has the version which its firing names: decide overlap by the state of its last
-- job, enqueue jobs, move the schedule to its next tick and add to its history. Other schedules stay as they are. Each
-- firing sees those before it. All of it is one atomic script.
-- ARGV: time, number of firings; for each { name, version, overlap, end, tick, next, ticks of its jobs, entries without
-- jobs } packed, and its jobs as `NewJobs.read` reads them. If overlap is `wait`, each job is followed by the same job with
-- one blocker, for which the last job is put.
-- Returns: for each firing false if it was refused, else the entries of its jobs as a history has them.
-- include: script, totals, jobs, flows, runs, unique, edges, history, ending, new_jobs, enqueueing, operators, recent, finish, schedules

local function read_firing()
  local firing, _ = { jobs = {}, blocked = {} }, nil
  _, firing.name, firing.version, firing.overlap, firing.how, firing.tick, firing.next, firing.ticks, firing.entries =
    cmsgpack.unpack_limit(Script.arg(), 8, 1)
  for i = 1, #firing.ticks do
    firing.jobs[i] = NewJobs.read()
    if firing.overlap == 'wait' then firing.blocked[i] = NewJobs.read() end
  end
  return firing
end

-- The last job of a schedule, of a run its current step, if it is not final and overlap matters to the firing.
local function unfinished(firing, last)
  if not last or firing.overlap == 'allow' or #firing.jobs == 0 then return end
  local job = Runs.current_step_of(last)
  return job and not Jobs.final(job.state) and job
end

-- Decide what overlap makes of a firing. Returns the jobs to enqueue, nil if the tick is skipped; and the ref of the job
-- that was cancelled for them.
local function decide(firing, last)
  local job = unfinished(firing, last)
  if not job then return firing.jobs end
  local begun = job.ref ~= last or job.fence > 0
  if firing.overlap == 'skip' or firing.overlap == 'wait' and not begun then return end
  if firing.overlap == 'replace' then
    Operators.cancel(job)
    return firing.jobs, job.ref
  end
  for _, new in ipairs(firing.blocked) do new.after[1] = last end
  return firing.blocked
end

-- Enqueue the jobs of a firing as overlap says. Returns their entries, and the ref of the job that is the last one now.
local function enqueue_jobs(firing, last)
  local jobs, replaced = decide(firing, last)
  local entries = {}
  if not jobs then
    for i, tick in ipairs(firing.ticks) do entries[i] = Schedules.entry(tick, 'skipped', last) end
    return entries, last
  end
  for _, new in ipairs(jobs) do
    if not Script.loaded[new.ref] then Script.loaded[new.ref] = nil end  -- it was looked for and missing: that ends now
  end
  Enqueueing.add_all(Enqueueing.plan(jobs))
  for i, new in ipairs(jobs) do
    entries[i] = Schedules.entry(firing.ticks[i], new.duplicate and 'duplicate' or firing.how, new.leads_to, replaced)
    if not new.duplicate then last = new.leads_to end
  end
  return entries, last
end

-- Carry out one firing. Returns the entries of its jobs; false if it was refused.
local function fire(firing)
  local schedule = Schedules.known[firing.name]
  if not schedule or schedule.version ~= firing.version then return false end
  local fired, last = enqueue_jobs(firing, schedule.last)
  local entries = {}
  for i, each in ipairs(firing.entries) do entries[i] = Schedules.entry(each[1], each[2], each[3], each[4], each[5]) end
  for _, entry in ipairs(fired) do entries[#entries + 1] = entry end
  schedule.version, schedule.last = schedule.version + 1, last
  schedule.tick, schedule.next = firing.tick, firing.next
  Schedules.add_history(schedule, entries)
  Schedules.set(firing.name, schedule)
  return Schedules.array(#fired, table.concat(fired))
end

local firings, names, answers = {}, {}, {}
for i = 1, tonumber(Script.arg()) do
  firings[i] = read_firing()
  names[i] = firings[i].name
end
Schedules.load_all(names)
-- A full server refuses this before anything is done. A cancellation as the first write would let all that follow pass.
Script.draw_seqs(0)
for i, firing in ipairs(firings) do answers[i] = fire(firing) end
local reply = Script.finish(answers)
-- The schedules last: if an earlier command is refused they keep their versions, and the same firing may be repeated. It
-- finds the jobs by their ids, which depend on the tick alone, and adds none twice.
Schedules.save_all()
return reply
