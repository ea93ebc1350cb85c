-- Finished jobs being removed together, of which nothing is left but their record and where they stand: single ones, and runs.

local Removing = later(function(Removing)

-- Of nothing so far.
function Removing.begin()
  return { refs = {}, places = {}, runs = {} }
end

-- Let a job go too, which stands only there.
function Removing.add(removing, ref, record, key)
  removing.refs[#removing.refs + 1] = ref
  local places = removing.places[key] or {}
  removing.places[key] = places
  places[#places + 1] = string.sub(record, -6) .. ref
end

-- Whether nobody has a claim on a step that has handed over, nor had one.
function Removing.unclaimed(stored, record)
  if not stored or not record or string.byte(record, 2) ~= is.succeeded then return false end
  return bit.band(string.byte(record, 3), flag.step + flag.special + flag.blocks + flag.awaited) == flag.step
end

-- The runs that end with these steps, which nobody has a claim on; false in the place of those that one of their other steps has
-- more about it. Steps of all runs are read together, the first ones first.
function Removing.runs_of(lasts)
  local runs, alive = {}, {}
  for i, stored in ipairs(Step.fields_of(Key.jobs, lasts)) do
    runs[i] = false
    if stored then
      local _, _, _, options = select(3, cmsgpack.unpack_limit(stored, 5, 10))
      runs[i] = { ref = options.run or lasts[i], flow = options.flow, last = lasts[i], number = string.sub(stored, -6), steps = {} }
      runs[i].at = runs[i].ref
      if runs[i].at ~= lasts[i] then alive[#alive + 1] = i end
    end
  end
  while #alive > 0 do
    local refs, left = {}, {}
    for n, i in ipairs(alive) do refs[n] = runs[i].at end
    local stored, records = Step.fields_of(Key.jobs, refs), Step.fields_of(Key.records, refs)
    for n, i in ipairs(alive) do
      local run, successor = runs[i], nil
      if Removing.unclaimed(stored[n], records[n]) then successor = select(8, cmsgpack.unpack_limit(records[n], 7, 25)) end
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

-- Let a run go too, but for its last step, which the caller adds.
function Removing.add_run(removing, run)
  for _, step in ipairs(run.steps) do Removing.add(removing, unpack(step)) end
  removing.runs[#removing.runs + 1] = run
end

-- Remove all of them.
function Removing.go(removing)
  Step.each_chunk('HDEL', Key.jobs, removing.refs)
  Step.each_chunk('HDEL', Key.records, removing.refs)
  Step.each_chunk('ZREM', Key.order, removing.refs)
  if redis.call('EXISTS', Key.history) == 1 then Step.each_chunk('HDEL', Key.history, removing.refs) end
  Step.to_sweep = Step.to_sweep + 2 * #removing.refs
  for key, places in pairs(removing.places) do Step.each_chunk('ZREM', key, places) end
  if #removing.runs > 0 then Flows.remove_all(removing.runs) end
end

end)
