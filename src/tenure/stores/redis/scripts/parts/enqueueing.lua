-- Adds new jobs of any kind: unique, blocked, scheduled, steps of runs.

local Enqueueing = lazy(function(Enqueueing)

-- Decide what to do with each new job, changing nothing. Returns the jobs to add; each job gets `leads_to`, the ref of the
-- job that it becomes, and `duplicate` if that is an older job. If the call is refused, returns nil and { word of
-- `Refused`, index, ref or name of what is in the way }. Jobs in `ending` (by ref) will be final before these are added:
-- their unique keys count as free, unless held for a window.
function Enqueueing.plan(jobs, ending)
  local refs = {}
  for i = 1, #jobs do refs[i] = jobs[i].ref end
  local known = Script.fields_of(Key.jobs, refs)
  local planned, planned_refs, taken, owner_of_duplicate = {}, {}, {}, {}
  for i, new in ipairs(jobs) do
    if known[i] or planned_refs[new.ref] then
      new.leads_to = new.ref
      new.known = true
    else
      local owner, field
      if not new.head.plain then
        local job = Jobs.parse(new.ref, string.rep(' ', 10) .. new.stored)
        Script.loaded[new.ref] = nil
        if job.options.unique then
          field = Unique.field(job.task, job.options.unique)
          owner = taken[field] or Unique.owner_of(job.task, job.options.unique)
          if ending and ending[owner] and not ending[owner].options.window then owner = nil end
        end
      end
      if owner and new.head.raises then return nil, { Refused.UNIQUE, i - 1, owner } end
      if owner then
        owner_of_duplicate[new.ref] = owner
        new.leads_to, new.duplicate, new.known = owner, true, true
      else
        if field then taken[field] = new.ref end
        for position, blocker in ipairs(new.after or {}) do
          blocker = owner_of_duplicate[blocker] or blocker
          if not planned_refs[blocker] and redis.call('HEXISTS', Key.jobs, blocker) == 0 then
            return nil, { Refused.BLOCKER, i - 1, blocker }
          end
          new.after[position] = blocker
        end
        local missing = new.head.needs and Flows.missing(new.run, new.head.needs)
        if missing then return nil, { Refused.ATTRIBUTE, i - 1, missing } end
        planned_refs[new.ref] = true
        planned[#planned + 1] = new
        new.leads_to = new.ref
      end
    end
  end
  return planned
end

-- Flag the jobs that others of the same call wait for, in what is stored of them. Returns all of them by ref.
function Enqueueing.mark_blockers(planned)
  local by_ref = {}
  for _, new in ipairs(planned) do
    for position = 1, new.after and #new.after or 0 do
      local blocker = by_ref[new.after[position]]
      if blocker and not blocker.blocks then
        blocker.stored = string.char(string.byte(blocker.stored) + flag.blocks) .. string.sub(blocker.stored, 2)
        blocker.blocks = true
      end
    end
    by_ref[new.ref] = new
  end
  return by_ref
end

-- Store the edges of a new job, and close those whose blockers have ended already. A blocker that comes in the same call
-- can have ended only if it is more than a plain job in line. Returns the jobs that failed because the new job failed at
-- once: others may wait for its run.
function Enqueueing.add_edges(job, after, new_by_ref)
  local edges, names, others = { Edges.open_field(job.ref), #after, Edges.blockers_field(job.ref), Edges.pack_blockers(job, after) }, {}, {}
  for position, ref in ipairs(after) do
    edges[2 * position + 3], edges[2 * position + 4] = Edges.field(job.ref, position), 'O' .. ref
    names[2 * position - 1], names[2 * position] = 0, Edges.name(ref, job, position)
    if not new_by_ref[ref] or Script.loaded[ref] then others[#others + 1] = ref end
  end
  Script.call_in_chunks('HSET', Key.edges, edges)
  Script.call_in_chunks('ZADD', Key.dependents, names)
  if #others == 0 then return {} end
  Jobs.load_all(others)
  for _, ref in ipairs(others) do Jobs.mark(Jobs.load(ref), flag.blocks) end
  local failed = {}
  job.is_new = true
  for position, ref in ipairs(after) do
    local blocker = (not new_by_ref[ref] or Script.loaded[ref]) and Runs.current_step_of(ref)
    if blocker and Jobs.final(blocker.state) then
      local over = Ending.resolve_edge(blocker, name_of[blocker.state], job, position, ref)
      if over then failed = Ending.propagate(job, 'failed') end
    end
  end
  job.is_new = false
  return failed
end

-- Store planned jobs: in line, scheduled, blocked, or failed at once with their blocker. Returns those that are more than a
-- plain job in line, and the jobs that failed with them.
function Enqueueing.add_all(planned)
  if #planned == 0 then return {} end
  local by_ref = Enqueueing.mark_blockers(planned)
  local others = NewJobs.store(planned)
  if redis.call('EXISTS', Key.dependents) == 1 then
    -- A job that was removed and is enqueued again may have had dependents all the while.
    for _, new in ipairs(planned) do
      if Edges.any_to(new.ref) then Jobs.mark(Jobs.load(new.ref), flag.blocks) end
    end
  end
  local found = {}
  for _, new in ipairs(others) do
    local job = Script.loaded[new.ref] or Jobs.parse(new.ref, new.stored)
    job.run_at = new.head.run_at
    if new.after then job.state = is.blocked end
    Jobs.add_to_indexes(job)
    job.changed = job.run_at ~= nil or new.after ~= nil or Jobs.has(job, flag.blocks)
    if job.options.unique then Unique.claim(job) end
    found[#found + 1] = job
    if new.after then
      for _, each in ipairs(Enqueueing.add_edges(job, new.after, by_ref)) do found[#found + 1] = each end
    else
      Script.add_new_work(job.queue)
    end
  end
  return found
end

end)
