-- give_back: make the rows of these jobs ($2) as they were before the take. Their time is the old one, so they are next.
WITH
-- include: held
UPDATE queuert.job AS j
SET status = 'pending', attempt = greatest(j.attempt - 1, 0), leased_by = NULL, leased_until = NULL
FROM held
WHERE j.id = held.id
RETURNING j.type_name
