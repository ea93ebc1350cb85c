-- renew: prolong the leases of these jobs ($2) by the seconds of their types ($3). Answers the jobs that still have their rows.
WITH
-- include: held
UPDATE queuert.job AS j
SET leased_until = now() + served.lease * interval '1 second'
FROM held, unnest($1::text[], $3::float8[]) AS served(type_name, lease)
WHERE j.id = held.id AND served.type_name = j.type_name
RETURNING held.job_id
