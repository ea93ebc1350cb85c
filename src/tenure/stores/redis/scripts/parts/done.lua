-- The end of every step that changes jobs.

-- Write all that was gathered. The answer comes behind a mark if there is more to tell than was asked.
function Step.done(answer)
  if next(Step.loaded) then Jobs.save_all() end
  if Step.to_sweep >= 200 then Recent.sweep() end
  if next(Step.in_queues) then Totals.write() end
  Step.wake_workers()
  return Step.told and { '\0told', answer, Step.told } or answer
end
