-- run: read a run; nothing if no run has this ref.
-- Arguments: the ref. Answers: as `Telling.run` does.
-- include: step, totals, jobs, flows, runs, edges, reading, telling

return Telling.run(Step.arg())
