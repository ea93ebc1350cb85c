-- Jobs being taken from holders who are silent or gone.

local LostJobs = {}

-- Take a running job from its holder: to the front, or failed as lost. What the caller is told of it. The error is a word
-- that `records.py` knows, how often the job was lost, and the reason if there is one.
function LostJobs.lose(job, reason)
  local losses, most = job.losses + 1, job.options.max_losses or 3
  local failed = most > 0 and losses >= most and (Jobs.has(job, flag.solo) or most == 1)
  local worker = job.worker
  Totals.count('lost', job.queue, worker)
  Ending.revoke(job, 'taken')
  local error = RecordedError.LOST .. ' ' .. losses .. ((reason or '') ~= '' and ' ' .. reason or '')
  History.add(job, 'lost', error)
  Jobs.remove_from_indexes(job)
  job.state, job.losses, job.result, job.error = is.waiting, losses, nil, error
  Jobs.add_to_indexes(job)
  if failed then
    Ending.finish_and_propagate(job, is.failed, nil, nil, worker)
  else
    Script.add_new_work(job.queue)
  end
  return { job.ref, job.queue, job.task, worker, losses, failed }
end

function LostJobs.lose_all(jobs, reason)
  local lost = {}
  for i, job in ipairs(jobs) do lost[i] = LostJobs.lose(job, reason) end
  return lost
end
