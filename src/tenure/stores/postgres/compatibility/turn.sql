-- turn: `claim_chore` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION turn(_now float8, _chore text, _interval float8) RETURNS boolean LANGUAGE sql AS $$
    SELECT claim_chore(_now, _chore, _interval)
$$;
