-- plain_fields: the fields that every new job may have, as `new_fields` of records.py writes them. A missing field is NULL.
id text, task text, queue text, raw boolean, priority integer, delay float8, run_at float8, expires float8, tags text[],
keep float8, lease float8, max_attempts integer, max_losses integer, headers text
