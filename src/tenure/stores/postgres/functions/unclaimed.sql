-- unclaimed: the final jobs that nobody needs any more: who waits for the result, as the holder of a unique key, or because it is
-- blocked by it; of a run the last step, if that holds for all. A table that becomes part of the statement which names it, so that
-- a thousand jobs are one look and not a thousand; and its questions are no EXISTS, so that they are asked of each job by an index,
-- however the tables have grown.
CREATE OR REPLACE FUNCTION unclaimed(_now float8) RETURNS SETOF ended LANGUAGE sql STABLE AS $$
    SELECT e.* FROM ended e JOIN jobs j ON j.n = ANY (ARRAY[e.n])
    WHERE e.successor IS NULL
      AND NOT (e.waited AND e.ended_at + 60 > _now)
      AND (
          SELECT true FROM uniques u
          WHERE u.task = j.task AND u.key = j.unique_key AND u.job = j.id AND (u.until IS NULL OR u.until > _now)
      ) IS NULL
      AND (
          SELECT true FROM edges d JOIN live l ON l.n = ANY (ARRAY[d.dependent])
          WHERE d.blocker = j.id AND d.open AND l.blocked_by > 0 LIMIT 1
      ) IS NULL
      AND (j.run IS NULL OR (
          SELECT true FROM jobs s JOIN ended h ON h.n = ANY (ARRAY[s.n])
          WHERE s.run = j.run AND s.n <> j.n AND (
              (h.waited AND e.ended_at + 60 > _now)
              OR (
                  SELECT true FROM uniques u
                  WHERE u.task = s.task AND u.key = s.unique_key AND u.job = s.id AND (u.until IS NULL OR u.until > _now)
              )
              OR (
                  SELECT true FROM edges d JOIN live l ON l.n = ANY (ARRAY[d.dependent])
                  WHERE d.blocker = s.id AND d.open AND l.blocked_by > 0 LIMIT 1
              )
          ) LIMIT 1
      ) IS NULL)
$$;
