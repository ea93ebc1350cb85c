-- claim_chore: Claim a periodic chore. Returns true for one caller every `_interval` seconds, false for all others. A
-- time in the future, by a clock that was set back since, does not count.
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
