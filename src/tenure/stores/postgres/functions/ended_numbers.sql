-- ended_numbers: The numbers of the jobs whose dependents, waiters and keys are due now that the job `_n` has ended:
-- `_n` itself; with the last step of a run also the first step, which stands for the run. A first step that hands over
-- gives none, because its run goes on.
CREATE OR REPLACE FUNCTION ended_numbers(_n bigint, _run bigint, _successor text) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN _run IS NULL THEN ARRAY[_n]
        WHEN _successor IS NOT NULL THEN CASE WHEN _run = _n THEN '{}' ELSE ARRAY[_n] END
        WHEN _run = _n THEN ARRAY[_n]
        ELSE ARRAY[_n, _run]
    END
$$;
