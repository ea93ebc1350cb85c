-- settle: Do what `settle_all` does with leases whose transitions all come as JSON. Programs of layout 1 call it for
-- all leases, because they do not know which jobs are steps.
CREATE OR REPLACE FUNCTION settle(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _states text[], _results text[], _errors text[],
    _steps json[], _payloads bytea[]
) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN settle_all(
        _now, _ns, _ids, _fences, _nonces, _states, _results, _errors, _steps, _payloads, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL
    );
END
$$;
