-- release_held: the jobs in the JSON array ?1 go back to their places, each if it is held under the token given with it; the
-- attempt is given back. Each: number, fence, nonce. The caller compares the number changed.
UPDATE tenure_jobs SET state = 'waiting', run_at = NULL, attempt = attempt - 1, lease_until = NULL, progress = NULL
FROM json_each(?1) AS wanted
WHERE n = wanted.value ->> 0 AND tenure_jobs.state = 'running' AND fence = wanted.value ->> 1 AND nonce = wanted.value ->> 2
