"""Whether what is in the tables can be true together, seen past the store (I13, I14, I20)."""

from __future__ import annotations

from typing import Any

import asyncpg  # type: ignore[import-untyped]

from tenure.stores.postgres.address import Address

__all__ = ["unsound", "unsound_at"]

_NEVER = {
    "a job that is neither live nor ended, or both": """
        SELECT j.id FROM jobs j
        WHERE EXISTS (SELECT FROM live l WHERE l.n = j.n) = EXISTS (SELECT FROM ended e WHERE e.n = j.n)
    """,
    "a state without its job": """
        SELECT n::text FROM (SELECT n FROM live UNION ALL SELECT n FROM ended) AS both_states
        WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.n = both_states.n)
    """,
    "a lease without a holder, or a holder without a lease": """
        SELECT n::text FROM live WHERE (state = 'running') <> (lease_until IS NOT NULL AND nonce IS NOT NULL)
          AND (state = 'running' OR lease_until IS NOT NULL)
    """,
    "a number of open edges that is wrong": """
        SELECT n::text FROM live l
        WHERE parked_until IS NULL
          AND blocked_by <> (SELECT count(*) FROM edges d WHERE d.dependent = l.n AND d.open)
    """,
    "a blocked job that nothing blocks": "SELECT n::text FROM live WHERE state = 'blocked' AND blocked_by = 0",
    "a blocked job whose blocker is gone or has succeeded": """
        SELECT j.id FROM live l JOIN jobs j ON j.n = l.n JOIN edges d ON d.dependent = l.n AND d.open
        LEFT JOIN jobs b ON b.id = d.blocker LEFT JOIN ended e ON e.n = b.n
        WHERE l.state = 'blocked' AND (b.n IS NULL OR e.state = 'succeeded' AND NOT (
            b.run = b.n AND e.successor IS NOT NULL AND NOT EXISTS (
                SELECT FROM jobs s JOIN ended se ON se.n = s.n WHERE s.run = b.n AND se.state = 'succeeded' AND se.successor IS NULL
            )
        ))
    """,
    "an edge without its dependent": """
        SELECT dependent::text FROM edges d WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.n = d.dependent)
    """,
    "a key that nobody holds": """
        SELECT key FROM uniques u
        WHERE until IS NULL AND NOT EXISTS (
            SELECT FROM jobs j JOIN live l ON l.n = j.n OR l.run = j.n WHERE j.id = u.job AND j.unique_key = u.key
        )
    """,
    "a job without the key that it holds": """
        SELECT j.id FROM jobs j JOIN live l ON l.n = j.n OR l.run = j.n
        WHERE j.unique_key IS NOT NULL AND j.unique_until IS NULL
          AND NOT EXISTS (SELECT FROM uniques u WHERE u.task = j.task AND u.key = j.unique_key AND u.job = j.id)
    """,
    "a waiter for a job that has ended": """
        SELECT n::text FROM waiters WHERE NOT EXISTS (SELECT FROM live l WHERE l.n = waiters.n OR l.run = waiters.n)
    """,
    "a run that has not one current step, which is its last": """
        SELECT run::text FROM jobs j LEFT JOIN ended e ON e.n = j.n WHERE run IS NOT NULL
        GROUP BY run HAVING count(*) FILTER (WHERE e.successor IS NULL) <> 1
            OR max(j.n) FILTER (WHERE e.successor IS NULL) <> max(j.n)
    """,
    "a step that has handed over to nobody": """
        SELECT j.id FROM ended e JOIN jobs j ON j.n = e.n
        WHERE e.successor IS NOT NULL AND (
            e.state <> 'succeeded' OR NOT EXISTS (SELECT FROM jobs s WHERE s.id = e.successor AND s.run = j.run AND s.n > j.n)
        )
    """,
    "a step without its run": """
        SELECT id FROM jobs j
        WHERE (run_id IS NULL) <> (run IS NULL)
           OR run IS NOT NULL AND NOT EXISTS (SELECT FROM jobs f WHERE f.n = j.run AND f.run = f.n AND f.id = j.run_id AND f.flow IS NOT NULL)
    """,
    "a step whose parts say different things": """
        SELECT j.id FROM jobs j JOIN live l ON l.n = j.n LEFT JOIN jobs f ON f.n = j.run
        WHERE l.run IS DISTINCT FROM j.run OR f.unique_key IS NOT NULL AND NOT l.keyed
    """,
    "attributes or lookups of a run that is gone": """
        SELECT run::text FROM (SELECT run FROM attributes UNION SELECT run FROM lookups) AS known
        WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.n = known.run AND j.run = j.n)
    """,
    "more attempts than are remembered, or one twice": """
        SELECT n::text FROM (SELECT n, attempts FROM live UNION ALL SELECT n, attempts FROM ended) AS both_states
        WHERE cardinality(attempts) > 10
           OR cardinality(attempts) <> (SELECT count(DISTINCT attempt::json ->> 1) FROM unnest(attempts) AS attempt)
    """,
    "a schedule that remembers too much": "SELECT name FROM schedules WHERE cardinality(history) > 20",
    "a slot with more rows than it may have": """
        SELECT format('%s from %s on', resolution, slot) FROM measures GROUP BY resolution, slot HAVING count(*) > 201
    """,
    "a counter that is no recount": """
        SELECT format('%s %s is %s, not %s', queue, place, counted, recounted) FROM (
            SELECT queue, what AS place, sum(number) AS counted FROM counted
            WHERE worker IS NULL AND what NOT LIKE 'total%' GROUP BY 1, 2
        ) AS counters FULL JOIN (
            SELECT queue, CASE WHEN state = 'waiting' AND run_at IS NOT NULL THEN 'scheduled' ELSE state END AS place,
                   count(*) AS recounted
            FROM (
                SELECT queue, state, run_at FROM live UNION ALL SELECT queue, state, NULL FROM ended
                UNION ALL SELECT queue, 'handed', NULL FROM ended WHERE successor IS NOT NULL
            ) AS all_jobs GROUP BY 1, 2
        ) AS found USING (queue, place)
        WHERE coalesce(counted, 0) <> coalesce(recounted, 0)
    """,
}


async def unsound(sql: Any) -> list[str]:
    """What is wrong in the schema that is first in the path of this connection."""
    return [f"{what}: {found}" for what, query in _NEVER.items() for [found] in await sql.fetch(query)]


async def unsound_at(url: str) -> list[str]:
    """What is wrong in the store of a URL, which may be behind a pooler."""
    address = Address.from_url(url)
    connection = await asyncpg.connect(address.dsn, statement_cache_size=0)
    try:
        async with connection.transaction():
            await connection.execute(f'SET LOCAL search_path = "{address.schema}"')
            return await unsound(connection)
    finally:
        await connection.close()
