-- get: read jobs whole, in order; nothing for each that does not exist.
-- Arguments: refs. Answers: as `describe` does, and the history of each.
-- include: script, totals, jobs, edges, reading

local refs = Script.remaining_args()
return { Reading.describe_all(refs), Script.fields_of(Key.history, refs) }
