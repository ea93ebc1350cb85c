-- alive: holders of rows of these types ($1) whose lease has not run out, in this or another store.
SELECT DISTINCT held.leased_by
FROM queuert.job AS held
WHERE held.type_name = ANY($1::text[]) AND held.status = 'running' AND held.leased_until > now()
  AND held.leased_by ~ '^tenure(-returning)?:.*:[0-9a-f-]{36}$'
