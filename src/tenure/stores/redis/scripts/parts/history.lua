-- The history of a job: its latest attempts that did not succeed, or that left output. A MessagePack array per ref.

local History = lazy(function(History)

local MOST = 10  -- tenure.core.job.HISTORY

-- Add the latest attempt of a job. It ended at `job.ended`, or now. `left` is its error, or its output if it has none. An
-- entry is an array: attempt number, fence, start, end, worker, how it ended, `left`.
function History.add(job, how, left)
  local entry = '\151' .. cmsgpack.pack(job.attempt, job.fence, job.started, job.ended or Script.now, job.worker, how, left)
  local had = redis.call('HGET', Key.history, job.ref)
  local number, before = had and string.byte(had) - 144 or 0, had and string.sub(had, 2) or ''
  if number == MOST then
    local first = cmsgpack.unpack_limit(before, 1, 0)
    number, before = number - 1, string.sub(before, first + 1)
  end
  redis.call('HSET', Key.history, job.ref, string.char(144 + number + 1) .. before .. entry)
end

-- Whether the history has the latest attempt of a job.
function History.has_latest(job)
  local had = redis.call('HGET', Key.history, job.ref)
  local entries = had and cmsgpack.unpack(had)
  return entries and entries[#entries][2] == job.fence
end

end)
