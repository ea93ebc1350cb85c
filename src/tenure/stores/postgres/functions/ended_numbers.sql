-- ended_numbers: whose dependents, waiters and keys it is time for, now that the job _n has ended: itself; and with the last step of a
-- run the first, which stands for the run, and for which it is not time before.
CREATE OR REPLACE FUNCTION ended_numbers(_n bigint, _run bigint, _successor text) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN _run IS NULL THEN ARRAY[_n]
        WHEN _successor IS NOT NULL THEN CASE WHEN _run = _n THEN '{}' ELSE ARRAY[_n] END
        WHEN _run = _n THEN ARRAY[_n]
        ELSE ARRAY[_n, _run]
    END
$$;
