-- try_again: let the rows of these jobs ($2) run again, with the reasons in $3: after $4 seconds, or at the time $5 (seconds since
-- the epoch), or, with neither, after 10 seconds, doubled for each attempt, 300 at most. Only what we still hold.
WITH
-- include: held
UPDATE queuert.job AS j
SET status = 'pending', leased_by = NULL, leased_until = NULL, last_attempt_at = now(), last_attempt_error = to_jsonb(ended.reason),
    scheduled_at = coalesce(
        to_timestamp(ended.at),
        now() + coalesce(ended.delay, least(10 * power(2, least(j.attempt, 10) - 1), 300)) * interval '1 second'
    )
FROM held
JOIN unnest($2::text[], $3::text[], $4::float8[], $5::float8[]) AS ended(job_id, reason, delay, at) USING (job_id)
WHERE j.id = held.id
