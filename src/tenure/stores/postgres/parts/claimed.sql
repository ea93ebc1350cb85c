-- claimed: whether a final job is still needed: by who waits for its result, as the holder of a unique key, or by a job that
-- is blocked by it.
CREATE OR REPLACE FUNCTION claimed(_now float8, _n bigint, _waited boolean, _ended_at float8) RETURNS boolean
LANGUAGE sql AS $$
    SELECT (_waited AND _ended_at + 60 > _now)
        OR EXISTS (
            SELECT FROM jobs j JOIN uniques u ON u.task = j.task AND u.key = j.unique_key
            WHERE j.n = _n AND u.job = j.id AND (u.until IS NULL OR u.until > _now)
        )
        OR EXISTS (
            SELECT FROM jobs j JOIN edges d ON d.blocker = j.id AND d.open JOIN live l ON l.n = d.dependent
            WHERE j.n = _n AND l.state = 'blocked'
        )
$$;
