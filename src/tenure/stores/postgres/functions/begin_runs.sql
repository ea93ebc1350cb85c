-- begin_runs: Store the attributes and lookups of the runs that begin with these new jobs. `_begun`: numbers of the
-- jobs that were stored as first steps by this call.
CREATE OR REPLACE FUNCTION begin_runs(_jobs json, _payloads bytea[], _begun bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO attributes (run, name, value)
    SELECT j.n, given.key, given.value
    FROM new_jobs(_jobs, _payloads) AS new JOIN jobs j ON j.id = ANY (ARRAY[new.id]), json_each_text(new.attributes) AS given
    WHERE new.attributes IS NOT NULL AND j.n = ANY (_begun)
    ON CONFLICT DO NOTHING;  -- because an id may occur twice in a call
    INSERT INTO lookups (run, name, value, flow)
    SELECT j.n, given.key, one.value, j.flow
    FROM new_jobs(_jobs, _payloads) AS new JOIN jobs j ON j.id = ANY (ARRAY[new.id]), json_each(new.lookups) AS given,
         json_array_elements_text(given.value) AS one (value)
    WHERE new.lookups IS NOT NULL AND j.n = ANY (_begun)
    ON CONFLICT DO NOTHING;
END
$$;
