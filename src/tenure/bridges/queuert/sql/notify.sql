-- notify: announce these payloads ($2) on a channel ($1), when the transaction commits.
SELECT pg_notify($1::text, payload) FROM unnest($2::text[]) AS payload
