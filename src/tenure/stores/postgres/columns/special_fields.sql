-- special_fields: the fields of new jobs that have a unique key, wait for other jobs, or are steps of a run.
key text, key_for float8, key_raises boolean, after text[], if_blocker_fails text, run_id text, flow text, reads text[],
attributes json, lookups json
