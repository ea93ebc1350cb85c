-- get: read jobs whole, in order; nothing for each that does not exist.
-- Arguments: refs. Answers: as `describe` does.
-- include: step, totals, jobs, edges, reading

return Reading.describe_all(Step.rest())
