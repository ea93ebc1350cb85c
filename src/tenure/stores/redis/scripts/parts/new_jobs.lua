-- Reads new jobs from the arguments and stores them. Plain jobs need no more than this.

local NewJobs = lazy(function(NewJobs)

local heads = {}

local STEP = 64  -- kinds from here on are steps of a run

-- Parse the head of a new job. Equal heads are parsed once.
function NewJobs.head(packed)
  local head = heads[packed]
  if head then return head end
  local more, queue, priority, kind, delay, run_at, edges, raises = cmsgpack.unpack_limit(packed, 7, 1)
  run_at = run_at or (delay > 0 and Script.now + delay) or nil
  head = { queue = queue, priority = tostring(priority), run_at = run_at and run_at > Script.now and run_at or nil,
           edges = edges, raises = raises, plain = kind % 2 == 0 }
  if kind >= STEP then
    local _
    _, head.flow, head.begins, head.needs, head.names, head.lookups = cmsgpack.unpack_limit(packed, 5, more)
  end
  heads[packed] = head
  return head
end

-- Read the next new job: ref, stored part, head, and the refs of its blockers. For a step also the ref of its run, unless
-- it begins the run, and what it writes to the run.
function NewJobs.read()
  local at = Script.args_read
  Script.args_read = at + 3
  local head = NewJobs.head(ARGV[at + 3])
  local new = { ref = ARGV[at + 1], stored = ARGV[at + 2], head = head }
  if head.edges > 0 then
    new.after = {}
    for position = 1, head.edges do new.after[position] = Script.arg() end
  end
  if head.flow then
    new.run = head.begins and new.ref or Script.arg()
    new.writes = Flows.read_writes(head.names, head.lookups)
  end
  return new
end

function NewJobs.read_all(number)
  local jobs = {}
  for i = 1, number do jobs[i] = NewJobs.read() end
  return jobs
end

-- Store jobs, and put the plain ones in line. Returns the others.
function NewJobs.store(jobs)
  local last = Script.draw_seqs(#jobs)
  local before, after = '\152\203' .. struct.pack('>d', Script.now), '\207\0\0'
  local stored, recent, lines, others, steps = {}, {}, {}, {}, {}
  for i, new in ipairs(jobs) do
    local seq, head = Script.seq_of(last + i), new.head
    new.stored = before .. new.stored .. after .. seq
    stored[2 * i - 1], stored[2 * i] = new.ref, new.stored
    recent[i] = seq .. new.ref
    local line = lines[head.queue]
    if not line then
      line = {}
      lines[head.queue] = line
    end
    if head.plain and not head.run_at then
      line[#line + 1] = head.priority
      line[#line + 1] = recent[i]
    else
      others[#others + 1] = new
    end
    if head.flow then
      new.number = last + i
      steps[#steps + 1] = new
    end
  end
  Script.call_in_chunks('RPUSH', Key.recent, recent)
  if #steps > 0 then Flows.add_steps(steps) end
  -- Every hundredth job sweeps for all hundred.
  local hundreds = math.floor((last + #jobs) / 100) - math.floor(last / 100)
  Script.to_sweep = Script.to_sweep + 200 * hundreds
  for queue, line in pairs(lines) do
    Script.register_queue(queue)
    Script.call_in_chunks('ZADD', Key.line .. queue, line)
    if #line > 0 then Script.add_new_work(queue, #line / 2) end
  end
  -- The jobs last: if an earlier command is refused there is no job, and repeating the enqueue creates it.
  Script.call_in_chunks('HSET', Key.jobs, stored)
  return others
end

end)
