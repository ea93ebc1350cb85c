-- run: read a run; nothing if no run has this ref.
-- Arguments: the ref. Answers: as `RunReading.describe` does.
-- include: script, totals, jobs, flows, runs, edges, reading, run_reading

return RunReading.describe(Script.arg())
