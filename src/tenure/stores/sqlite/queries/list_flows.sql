-- list_flows: every flow that has runs. One index lookup for each flow instead of a scan of all runs.
WITH RECURSIVE found (flow) AS (
    SELECT min(flow) FROM tenure_jobs WHERE flow IS NOT NULL
    UNION ALL
    SELECT (SELECT min(flow) FROM tenure_jobs WHERE flow IS NOT NULL AND flow > found.flow) FROM found WHERE found.flow IS NOT NULL
)
SELECT flow FROM found WHERE flow IS NOT NULL
