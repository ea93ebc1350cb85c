-- get: read whole jobs with their history. Reads only.
-- ARGV: time, refs.
-- Returns: a list of descriptions as `Reading.describe` gives them, false for a job that does not exist; a list of
-- histories.
-- include: script, totals, jobs, edges, reading

local refs = Script.remaining_args()
return { Reading.describe_all(refs), Script.fields_of(Key.history, refs) }
