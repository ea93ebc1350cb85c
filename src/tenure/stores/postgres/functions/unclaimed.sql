-- unclaimed: The final jobs that are not needed any more. A job is claimed while a caller may still fetch the result it
-- waited for (60 seconds), while it owns a unique key, or while a blocked job waits for it; the last step of a run,
-- while any of this holds for any of its steps.
--
-- The planner inlines it, so that 1,000 jobs are one scan. Its conditions are no EXISTS, so that each is looked up by
-- an index, however large the tables have grown.
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
