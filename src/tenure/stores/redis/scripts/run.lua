-- run: read a run. Reads only.
-- ARGV: time, ref of the run.
-- Returns: as `RunReading.describe`; false if there is no such run.
-- include: script, totals, jobs, flows, runs, edges, reading, run_reading

return RunReading.describe(Script.arg())
