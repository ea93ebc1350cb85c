-- Which attempts a job has had that did not succeed, or left output: `history` has by ref an array of the latest.

local History = lazy(function(History)

local MOST = 10  -- tenure.job.HISTORY

-- Enter the latest attempt of a job, which ends now or did so when it says, and what it has left: its error, or in the place of one
-- what it wrote. An entry is an array: number, fence, start, end, worker, how it ended, that.
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

-- Whether the latest attempt of a job has been entered.
function History.has_latest(job)
  local had = redis.call('HGET', Key.history, job.ref)
  local entries = had and cmsgpack.unpack(had)
  return entries and entries[#entries][2] == job.fence
end

end)
