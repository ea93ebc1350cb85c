-- Removes finished jobs together that have only a record and an index entry: single jobs and whole runs.

local RemovalBatch = lazy(function(RemovalBatch)

function RemovalBatch.begin()
  return { refs = {}, members = {}, runs = {} }
end

-- Add a job whose only index is `key`.
function RemovalBatch.add(batch, ref, record, key)
  batch.refs[#batch.refs + 1] = ref
  local members = batch.members[key] or {}
  batch.members[key] = members
  members[#members + 1] = string.sub(record, -6) .. ref
end

-- Whether a step that has handed over is plain: nothing ever waited for it and it has no unique key.
function RemovalBatch.is_unclaimed(stored, record)
  if not stored or not record or string.byte(record, 2) ~= is.succeeded then return false end
  return bit.band(string.byte(record, 3), flag.step + flag.special + flag.blocks + flag.awaited) == flag.step
end

-- The runs that end with these unclaimed steps; false for a run with a step that is not plain. The steps of all runs are
-- read together, starting with the first steps.
function RemovalBatch.runs_of(last_steps)
  local runs, alive = {}, {}
  for i, stored in ipairs(Script.fields_of(Key.jobs, last_steps)) do
    runs[i] = false
    if stored then
      local _, _, _, options = select(3, cmsgpack.unpack_limit(stored, 5, 10))
      runs[i] = { ref = options.run or last_steps[i], flow = options.flow, last = last_steps[i], number = string.sub(stored, -6), steps = {} }
      runs[i].at = runs[i].ref
      if runs[i].at ~= last_steps[i] then alive[#alive + 1] = i end
    end
  end
  while #alive > 0 do
    local refs, left = {}, {}
    for n, i in ipairs(alive) do refs[n] = runs[i].at end
    local stored, records = Script.fields_of(Key.jobs, refs), Script.fields_of(Key.records, refs)
    for n, i in ipairs(alive) do
      local run, successor = runs[i], nil
      if RemovalBatch.is_unclaimed(stored[n], records[n]) then successor = select(8, cmsgpack.unpack_limit(records[n], 7, 25)) end
      if successor then
        if run.at == run.ref then run.number = string.sub(stored[n], -6) end
        local queue = select(4, cmsgpack.unpack_limit(stored[n], 3, 10))
        run.steps[#run.steps + 1] = { run.at, records[n], Key.apart .. name_of[is.succeeded] .. ':' .. queue }
        run.at = successor
        if successor ~= run.last then left[#left + 1] = i end
      else
        runs[i] = false
      end
    end
    alive = left
  end
  return runs
end

-- Add a run, except for its last step, which the caller adds.
function RemovalBatch.add_run(batch, run)
  for _, step in ipairs(run.steps) do RemovalBatch.add(batch, unpack(step)) end
  batch.runs[#batch.runs + 1] = run
end

-- Remove everything that was added.
function RemovalBatch.flush(batch)
  Script.call_in_chunks('HDEL', Key.jobs, batch.refs)
  Script.call_in_chunks('HDEL', Key.records, batch.refs)
  Script.call_in_chunks('ZREM', Key.order, batch.refs)
  for _, key in ipairs({ Key.history, Key.ready_at }) do
    if redis.call('EXISTS', key) == 1 then Script.call_in_chunks('HDEL', key, batch.refs) end
  end
  Script.to_sweep = Script.to_sweep + 2 * #batch.refs
  for key, members in pairs(batch.members) do Script.call_in_chunks('ZREM', key, members) end
  if #batch.runs > 0 then Flows.remove_all(batch.runs) end
end

end)
