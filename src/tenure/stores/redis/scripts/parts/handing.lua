-- Steps of runs that end as nearly all of them do: many together.

local Handing = later(function(Handing)

-- By index, which of the jobs of these settlements are steps that end their runs unnoticed: nobody waits for the run, and it
-- has no key. Only that is asked here; whether they end is not. Gives the refs of those runs.
function Handing.unnoticed(items, records)
  local steps, refs, found = {}, {}, {}
  for i = 1, #items.refs do
    local with = items.coming[i]
    local plain = with and with.plain or string.byte(items.steps[i]) < Settlements.FINISH
    if plain and records[i] and string.byte(records[i], 3) == flag.step then
      steps[#steps + 1], refs[#refs + 1] = i, items.refs[i]
    end
  end
  local runs, of = {}, {}
  for n, stored in ipairs(Step.fields_of(Key.jobs, refs)) do
    local run = stored and (select(6, cmsgpack.unpack_limit(stored, 5, 10))).run
    if run then
      runs[#runs + 1], of[#of + 1] = run, steps[n]
    else
      found[steps[n]] = refs[n]
    end
  end
  for n, first in ipairs(Step.fields_of(Key.records, runs)) do
    local noticed = not first or bit.band(string.byte(first, 3), flag.special + flag.blocks + flag.awaited) ~= 0
    found[of[n]] = not noticed and runs[n]
  end
  return found
end

-- The hand-overs of these settlements, none of which has been done yet.
function Handing.begin(items, records, firsts)
  return { items = items, records = records, firsts = firsts, batch = {}, groups = {} }
end

-- Whether a settlement is a hand-over that changes no more than the step's record and where it stands, and lets the next one
-- come in line. To the first step of a run nothing else can happen by that: who waits, waits for the run.
function Handing.takes(handing, i)
  local coming = handing.items.coming[i]
  local successor = coming and coming.successor
  if not successor or #coming.jobs > 1 or not successor.head.plain or coming.writes and coming.writes.lookups then return false end
  if coming.left then return false end
  local record, ref, byte = handing.records[i], handing.items.refs[i], string.byte
  if not record or byte(record, 2) ~= is.running or string.sub(record, 4, 25) ~= handing.items.tokens[i] then return false end
  local flags = byte(record, 3)
  local plain = flags == flag.step
  if not plain and flags > flag.step then
    local matters = successor.run == ref and flag.noted or flag.noted + flag.special + flag.blocks + flag.awaited
    -- Something in the place of `parked` is a step that was to follow.
    plain = bit.band(flags, matters) == 0 and byte(record, -13) == 192
  end
  return plain and handing.firsts[ref] == i and not Step.loaded[ref]
end

function Handing.add(handing, group, i)
  local n = #handing.batch + 1
  handing.batch[n], handing.groups[n] = i, group
end

-- Whether nothing stands in the way of each of these: its successor is new, and the run has what that needs.
function Handing.free(successors)
  local refs, seen, free = {}, {}, {}
  for n = 1, #successors do refs[n] = successors[n].ref end
  for n, known in ipairs(Step.fields_of(Key.jobs, refs)) do
    local needs, ref = successors[n].head.needs, refs[n]
    free[n] = not known and not seen[ref] and not (needs and Flows.missing(successors[n].run, needs))
    seen[ref] = true
  end
  return free
end

-- Do those that have been added so far; those that something stands in the way of by themselves.
function Handing.go(handing, settle_singly)
  local batch, groups, items, records, sub = handing.batch, handing.groups, handing.items, handing.records, string.sub
  if #batch == 0 then return end
  handing.batch, handing.groups = {}, {}
  local successors, coming, changed, gone, left = {}, {}, {}, {}, {}
  for n, i in ipairs(batch) do successors[n] = items.coming[i].successor end
  local head, ended = '\159' .. string.char(is.succeeded), cmsgpack.pack(Step.now)
  for n, free in ipairs(Handing.free(successors)) do
    local i, group, successor = batch[n], groups[n], successors[n]
    if free then
      local ref, record, with = items.refs[i], records[i], items.coming[i]
      local seq, size = sub(record, -6), #changed
      -- Replaced are the state, and the last fields before the seq: the successor stands in the place of `parked`, then follow
      -- end, result and error.
      local next = #successor.ref == 16 and '\176' .. successor.ref or cmsgpack.pack(successor.ref)
      changed[size + 1] = ref
      changed[size + 2] = head .. sub(record, 3, -14) .. next .. ended .. with.result .. '\192\207\0\0' .. seq
      local places = gone[group] or {}
      gone[group] = places
      places[#places + 1] = seq .. ref
      if with.writes then Step.each_chunk('HSET', Key.attributes .. successor.run, with.writes.attributes) end
      successor.before = group.queue
      coming[#coming + 1] = successor
    else
      left[#left + 1] = i
    end
  end
  -- The successors first: if the rest is refused, the same settle again finds them and does it.
  New.add_all(coming)
  Step.each_chunk('HSET', Key.records, changed)
  for group, places in pairs(gone) do Settlements.move(group, is.succeeded, places, Key.apart) end
  for _, i in ipairs(left) do settle_singly(i) end
end

end)
