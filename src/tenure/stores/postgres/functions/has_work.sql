-- has_work: Whether a job that is no suspect is in line, or an entry in the inbox, of a queue that matches `_serves`,
-- does not match `_excludes` and is not paused. Jumps from queue to queue in the index: one row each, however many jobs
-- there are. With tasks to `_skip` it looks at the first 1,000 jobs of each line.
CREATE OR REPLACE FUNCTION has_work(_serves text, _excludes text, _skip text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        WITH RECURSIVE busy AS (
            (SELECT queue FROM live WHERE state = 'waiting' AND run_at IS NULL ORDER BY queue LIMIT 1)
            UNION ALL
            SELECT (
                SELECT l.queue FROM live l
                WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue > busy.queue ORDER BY l.queue LIMIT 1
            ) FROM busy WHERE busy.queue IS NOT NULL
        )
        SELECT FROM busy
        WHERE queue ~ _serves AND queue !~ _excludes AND NOT EXISTS (SELECT FROM paused p WHERE p.queue = busy.queue)
          AND EXISTS (
              SELECT FROM live l WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = busy.queue AND NOT l.suspect
          ) AND (_skip IS NULL OR EXISTS (
              SELECT FROM (
                  SELECT l.task FROM live l
                  WHERE l.state = 'waiting' AND l.run_at IS NULL AND l.queue = busy.queue AND NOT l.suspect
                  ORDER BY l.priority, l.seq LIMIT 1000
              ) AS first WHERE first.task <> ALL (_skip)
          ))
    ) OR EXISTS (SELECT FROM inbox WHERE queue ~ _serves AND queue !~ _excludes);
END
$$;
