-- What belongs to a run besides its steps: its entry in the list of its flow, its attributes and its lookups.

local Flows = lazy(function(Flows)

-- Read what is written to a run from the arguments; nil if nothing is. Values are passed on without being parsed.
function Flows.read_writes(names, lookups)
  if not names and not lookups then return end
  local writes = { attributes = {} }
  for i, name in ipairs(names or {}) do
    writes.attributes[2 * i - 1], writes.attributes[2 * i] = name, Script.arg()
  end
  if lookups then writes.lookups = cmsgpack.unpack(Script.arg()) end
  return writes
end

-- The first of these names that is no attribute of the run; nil if the run has them all.
function Flows.missing(run, names)
  for i, value in ipairs(Script.fields_of(Key.attributes .. run, names)) do
    if not value then return names[i] end
  end
end

-- The prefix of all lookup entries of one value. Each part follows its length, so that no prefix begins like another.
function Flows.lookup_prefix(flow, name, value)
  return struct.pack('>I2', #flow) .. flow .. struct.pack('>I2', #name) .. name .. struct.pack('>I2', #value) .. value
end

-- The lookup entries of a run.
function Flows.entries(run, flow, number, lookups)
  local found = {}
  for name, values in pairs(lookups) do
    for _, value in ipairs(values) do
      found[#found + 1] = Flows.lookup_prefix(flow, name, value) .. Script.seq_of(number) .. run
    end
  end
  return found
end

-- Set these lookups of a run, in place of those it had under the same names.
function Flows.replace_lookups(run, flow, number, lookups)
  local had, replaced, scored = redis.call('HGET', Key.found_by, run), {}, {}
  local now = had and cmsgpack.unpack(had) or {}
  for name, values in pairs(lookups) do
    replaced[name] = now[name]
    now[name] = #values > 0 and values or nil
  end
  Script.call_in_chunks('ZREM', Key.lookups, Flows.entries(run, flow, number, replaced))
  for i, entry in ipairs(Flows.entries(run, flow, number, lookups)) do
    scored[2 * i - 1], scored[2 * i] = 0, entry
  end
  Script.call_in_chunks('ZADD', Key.lookups, scored)
  if next(now) then redis.call('HSET', Key.found_by, run, cmsgpack.pack(now)) else redis.call('HDEL', Key.found_by, run) end
end

function Flows.write(run, flow, number, writes)
  Script.call_in_chunks('HSET', Key.attributes .. run, writes.attributes)
  if writes.lookups then Flows.replace_lookups(run, flow, number, writes.lookups) end
end

-- Register steps that have been stored: list the runs that begin with one, make the others the current step of their run.
function Flows.add_steps(steps)
  local current, begun = {}, {}
  for _, new in ipairs(steps) do
    local flow = new.head.flow
    if new.head.begins then
      local runs = begun[flow] or {}
      runs[#runs + 1] = new.number
      runs[#runs + 1] = new.ref
      begun[flow] = runs
      if new.writes then Flows.write(new.ref, flow, new.number, new.writes) end
    else
      current[#current + 1] = new.run
      current[#current + 1] = (new.before or '') .. '\0' .. new.ref
    end
  end
  Script.call_in_chunks('HSET', Key.current, current)
  for flow, runs in pairs(begun) do
    redis.call('SADD', Key.flows, flow)
    Script.call_in_chunks('ZADD', Key.flow .. flow, runs)
  end
end

-- The ref of the current step of a run, and the queue of the step before it; nil if it is the first.
function Flows.current(run)
  local found = redis.call('HGET', Key.current, run)
  if not found then return run end
  local queue = string.match(found, '^[^%z]*')
  return string.sub(found, #queue + 2), queue
end

-- Remove everything of these runs but their steps. Each run has a ref, flow and number.
function Flows.remove_all(runs)
  local refs, keys, of_flow = {}, {}, {}
  for i, run in ipairs(runs) do
    refs[i], keys[i] = run.ref, Key.attributes .. run.ref
    of_flow[run.flow] = of_flow[run.flow] or {}
    table.insert(of_flow[run.flow], run.ref)
  end
  for first = 1, #keys, Script.CHUNK do
    redis.call('DEL', unpack(keys, first, math.min(first + Script.CHUNK - 1, #keys)))
  end
  Script.call_in_chunks('HDEL', Key.current, refs)
  for i, had in ipairs(Script.fields_of(Key.found_by, refs)) do
    if had then
      local number = struct.unpack('>I6', runs[i].number)
      Script.call_in_chunks('ZREM', Key.lookups, Flows.entries(refs[i], runs[i].flow, number, cmsgpack.unpack(had)))
    end
  end
  Script.call_in_chunks('HDEL', Key.found_by, refs)
  for flow, runs_of_flow in pairs(of_flow) do
    Script.call_in_chunks('ZREM', Key.flow .. flow, runs_of_flow)
    if redis.call('EXISTS', Key.flow .. flow) == 0 then redis.call('SREM', Key.flows, flow) end
  end
end

end)
