-- mark_returning: note in the rows of these jobs ($2) that they are being given back.
WITH
-- include: held
UPDATE queuert.job AS j
SET leased_by = 'tenure-returning:' || substr(j.leased_by, strpos(j.leased_by, ':') + 1)
FROM held
WHERE j.id = held.id
