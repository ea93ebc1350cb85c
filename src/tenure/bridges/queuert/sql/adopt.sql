-- adopt: give the row of a job ($2) from one worker ($4) to another ($5), with a new lease ($3). Answers nothing if it is not that one's.
WITH
-- include: held
UPDATE queuert.job AS j
SET leased_by = split_part(j.leased_by, ':', 1) || ':' || $5::text || ':' || held.job_id,
    leased_until = now() + served.lease * interval '1 second'
FROM held, unnest($1::text[], $3::float8[]) AS served(type_name, lease)
WHERE j.id = held.id AND served.type_name = j.type_name
  AND j.leased_by IN ('tenure:' || $4::text || ':' || held.job_id, 'tenure-returning:' || $4::text || ':' || held.job_id)
RETURNING j.id
