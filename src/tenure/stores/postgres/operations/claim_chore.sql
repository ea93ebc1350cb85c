-- claim_chore: whether a chore is the caller's to do: nobody has begun it less than so many seconds ago, by a clock that may be set back.
CREATE OR REPLACE FUNCTION claim_chore(_now float8, _chore text, _interval float8) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    _now := clock(_now);
    INSERT INTO turns AS t (chore, taken_at) VALUES (_chore, _now)
    ON CONFLICT (chore) DO UPDATE SET taken_at = excluded.taken_at
    WHERE t.taken_at > _now OR t.taken_at <= _now - _interval;
    RETURN FOUND;
END
$$;
