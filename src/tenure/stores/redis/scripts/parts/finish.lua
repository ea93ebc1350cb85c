-- The end of every step that changes jobs.

-- Write all that was gathered. The answer comes behind a mark if there is more to tell than was asked.
function Script.finish(answer)
  if next(Script.loaded) then Jobs.save_all() end
  if Script.to_sweep >= 200 then Recent.sweep() end
  if next(Script.queue_totals) then Totals.write() end
  Script.wake_workers()
  return Script.consequences and { '\0consequences', answer, Script.consequences } or answer
end
