-- Edges: one job waits for another. The value of an open edge is O and the ref of the blocker. The value of a closed edge
-- is R and the blocker's result, N if it had none, or F and a description of the blocker's failure. What a job was told to
-- wait for is stored apart, because programs of earlier versions read these values too.

local Edges = lazy(function(Edges)

function Edges.field(ref, position)
  return struct.pack('>I4', position) .. ref
end

function Edges.open_field(ref)
  return '#' .. ref
end

function Edges.blockers_field(ref)
  return '@' .. ref
end

-- What a job was told to wait for, as it is stored: a MessagePack array of refs, then the job's number, which tells it from
-- an entry that an earlier job of the same id has left. Last, because Lua always hashes the last byte of a string.
function Edges.pack_blockers(job, refs)
  return cmsgpack.pack(refs) .. job.number
end

-- The refs that a job was told to wait for, open and closed; nil if a program of an earlier version has enqueued it.
function Edges.blockers_of(job)
  local packed = redis.call('HGET', Key.edges, Edges.blockers_field(job.ref))
  if packed and string.sub(packed, -6) == job.number then return cmsgpack.unpack(string.sub(packed, 1, -7)) end
end

-- The prefix of the names of all open edges to a blocker. It starts with the length, so that no ref is a prefix of another.
function Edges.prefix_to(blocker)
  return struct.pack('>I2', #blocker) .. blocker
end

function Edges.name(blocker, dependent, position)
  return Edges.prefix_to(blocker) .. dependent.number .. struct.pack('>I4', position) .. dependent.ref
end

-- The open edges to a job, ordered by when their dependents were enqueued: { dependent, position, blocker, number }.
function Edges.open_to(job)
  if not Jobs.has(job, flag.blocks) then return {} end
  local first, found = Edges.prefix_to(job.ref), {}
  local names = redis.call('ZRANGEBYLEX', Key.dependents, '[' .. first, '(' .. first .. '\255\255\255\255\255\255')
  for i = 1, #names do
    local number, position = struct.unpack('>I6I4', names[i], #first + 1)
    local dependent = string.sub(names[i], #first + 11)
    if Jobs.load(dependent) then found[#found + 1] = { dependent, position, job.ref, number } end
  end
  return found
end

-- The same for several jobs; edges of one dependent are ordered by position.
function Edges.open_to_any(jobs)
  if #jobs == 1 then return Edges.open_to(jobs[1]) end
  local found = {}
  for _, job in ipairs(jobs) do
    for _, edge in ipairs(Edges.open_to(job)) do found[#found + 1] = edge end
  end
  table.sort(found, function(one, other)
    if one[4] ~= other[4] then return one[4] < other[4] end
    return one[2] < other[2]
  end)
  return found
end

-- Whether any job waits for this ref, whose job may have been removed and enqueued again.
function Edges.any_to(ref)
  local first = Edges.prefix_to(ref)
  local last = '(' .. first .. '\255\255\255\255\255\255'
  return redis.call('ZRANGEBYLEX', Key.dependents, '[' .. first, last, 'LIMIT', 0, 1)[1] ~= nil
end

-- The values of a job's edges, in the order of its blockers; the first `most` ones, or all.
function Edges.values_of(job, most)
  local fields = {}
  for position = 1, math.min(job.options.edges or 0, most or math.huge) do fields[position] = Edges.field(job.ref, position) end
  local found = Script.fields_of(Key.edges, fields)
  for position = 1, #fields do found[position] = found[position] or 'O' end  -- never written: an open edge without a blocker
  return found
end

-- Close one edge. The dependent joins the line if it was the last open one and the dependent is still blocked.
function Edges.close(blocker, dependent, position, value)
  redis.call('HSET', Key.edges, Edges.field(dependent.ref, position), value)
  redis.call('ZREM', Key.dependents, Edges.name(blocker, dependent, position))
  local open = redis.call('HINCRBY', Key.edges, Edges.open_field(dependent.ref), -1)
  if open == 0 and dependent.state == is.blocked then
    Jobs.enter_line(dependent, dependent.run_at)
    if not dependent.is_new then Script.add_consequence('unblocked', dependent) end
  end
end

-- The ref of an edge's blocker; false if the edge is closed.
function Edges.blocker_of(edge)
  return string.byte(edge) == string.byte('O') and string.sub(edge, 2)
end

end)
