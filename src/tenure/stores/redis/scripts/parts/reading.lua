-- Describes jobs to the caller.

local Reading = {}

-- One job: { ref, stored job, record, seconds left of its lease, number of open edges, values of its edges, when it
-- became due if that was not its enqueue, else false }; false if there is none.
function Reading.describe(ref, stored, record)
  if not stored then return false end
  local left, open, edges, ready_at = false, 0, {}, false
  if record then
    local job = Script.loaded[ref] or Jobs.parse(ref, stored, record)
    if job.state == is.running then
      local ends, longest = redis.call('ZSCORE', Key.held .. job.queue, job.seq .. ref), Totals.longest_lease(job.queue)
      left = (ends or 0) / 1000000 - Script.now
      if longest > 0 then left = math.min(left, longest) end
      left = string.format('%.17g', left)
    end
    if job.options.edges then
      edges = Edges.values_of(job)
      open = redis.call('HGET', Key.edges, Edges.open_field(ref)) or 0
    end
    if Jobs.has_moved(job) then ready_at = redis.call('HGET', Key.ready_at, ref) end
  end
  return { ref, stored, record, left, open, edges, ready_at }
end

function Reading.describe_all(refs)
  local stored, records, described = Script.fields_of(Key.jobs, refs), Script.fields_of(Key.records, refs), {}
  for i, ref in ipairs(refs) do described[i] = Reading.describe(ref, stored[i], records[i]) end
  return described
end
