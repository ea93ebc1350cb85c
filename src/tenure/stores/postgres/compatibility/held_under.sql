-- held_under: `leases_of` for programs of layout 8 and before.
CREATE OR REPLACE FUNCTION held_under(_nonce bigint) RETURNS SETOF records LANGUAGE sql AS $$
    SELECT * FROM leases_of(_nonce)
$$;
