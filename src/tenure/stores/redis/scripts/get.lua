-- get: read jobs whole, in order; nothing for each that does not exist.
-- Arguments: refs. Answers: as `describe` does, and the history of each.
-- include: step, totals, jobs, edges, reading

local refs = Step.rest()
return { Reading.describe_all(refs), Step.fields_of(Key.history, refs) }
