-- settle_rest: what `settle` could not do at once for its whole batch, in the order of that: edges to those that have _ended, of which
-- _blocking are waited for; successors of those that are _handing over; and whole steps, of those that have not ended. Neighbours of one
-- kind are done together. The verdicts.
--
-- Jobs that are not kept, those of _unkept and those that fail with a blocker, go before the next whole step, and not all at the end:
-- that step may wait for one of them, bring a job with its id, or be a repeated settle of it.
CREATE OR REPLACE FUNCTION settle_rest(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _states text[], _results text[], _errors text[],
    _steps json[], _payloads bytea[], _runs text[], _ended integer[], _blocking text[], _ended_runs bigint[], _run_ends integer[],
    _handing integer[], _handed_runs bigint[], _handed_keyed boolean[], _coming json, _unkept bigint[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _kind text := '';
    _doing record;
    _closed text[] := '{}';
    _closed_with text[] := '{}';
    _closed_at integer[] := '{}';
    _from integer := 1;
    _to integer := 0;
    _going bigint[] := '{}';
    _verdicts text[];
BEGIN
    _verdicts := array_fill('ok'::text, ARRAY[cardinality(_ns)]);
    FOR _doing IN
        SELECT at, CASE WHEN state = 'succeeded' THEN 'close' ELSE 'follow' END AS kind, id FROM (
            SELECT at, state, id FROM unnest(_ids, _states) WITH ORDINALITY AS wanted (id, state, at)
            WHERE at = ANY (_ended) AND id = ANY (_blocking)
              -- The first step of a run that goes on is not waited for: the run is.
              AND NOT EXISTS (SELECT FROM unnest(_handing, _handed_runs) AS handing (at, run) WHERE handing.at = wanted.at AND run = _ns[at])
            UNION ALL
            SELECT at, _states[at], j.id FROM unnest(_run_ends, _ended_runs) AS ending (at, run) JOIN jobs j ON j.n = ANY (ARRAY[ending.run])
            WHERE j.id = ANY (_blocking)
        ) AS over
        UNION ALL SELECT at, 'hand over', NULL FROM unnest(_handing) AS at
        UNION ALL SELECT at, 'settle', NULL FROM generate_series(1, cardinality(_ns)) AS at WHERE (at = ANY (_ended)) IS NOT TRUE
        UNION ALL SELECT at, 'unkept', NULL FROM unnest(_ended) AS at WHERE _ns[at] = ANY (_unkept)
        UNION ALL SELECT cardinality(_ns) + 1, 'end', NULL
        ORDER BY at, kind
    LOOP
        IF _doing.kind = 'unkept' THEN
            _going := _going || _ns[_doing.at];
            CONTINUE;
        END IF;
        IF _kind <> _doing.kind THEN
            IF _kind = 'close' THEN
                PERFORM close_edges(_now, _closed, _closed_with, _closed_at);
                _closed := '{}';
                _closed_with := '{}';
                _closed_at := '{}';
            ELSIF _kind = 'hand over' THEN
                PERFORM hand_over(_now, _handed_runs[_from : _to], _handed_keyed[_from : _to], (
                    SELECT json_agg(new ORDER BY at) FROM json_array_elements(_coming) WITH ORDINALITY AS each (new, at)
                    WHERE at BETWEEN _from AND _to
                ));
                _from := _to + 1;
            END IF;
            _kind := _doing.kind;
        END IF;
        IF _kind IN ('settle', 'end') AND cardinality(_going) > 0 THEN
            PERFORM drop_unkept(_now, _going);
            _going := '{}';
        END IF;
        CASE _kind
            WHEN 'close' THEN
                _closed := _closed || _doing.id;
                _closed_with := _closed_with || _results[_doing.at];
                _closed_at := _closed_at || _doing.at::integer;
            WHEN 'follow' THEN
                _going := _going || follow_end(_now, _ns[_doing.at]);
            WHEN 'hand over' THEN
                _to := _to + 1;
            WHEN 'settle' THEN
                _verdicts[_doing.at] := settle_one(
                    _now, _ids[_doing.at], _fences[_doing.at], _nonces[_doing.at], _states[_doing.at], _results[_doing.at],
                    _errors[_doing.at],
                    CASE WHEN _runs[_doing.at] IS NULL OR _states[_doing.at] IS NULL THEN _steps[_doing.at] ELSE '{"kind": "again"}' END,
                    _payloads
                );
            ELSE
                EXIT;
        END CASE;
    END LOOP;
    RETURN _verdicts;
END
$$;
