-- settle_in_order: Do what `settle_all` could not do for its batch at once, in the order of the batch: close the edges
-- to jobs that have ended, enqueue successors, and settle the leases that are left. Neighbours of one kind are done
-- together. Returns the verdicts.
--
-- Jobs that are not kept (those of `_unkept`, and those that fail with a blocker) are removed before the next lease is
-- settled, and not all at the end: its transition may name one of them as a blocker, bring a job with its id, or repeat
-- its settlement.
--
-- `_ended`: positions in the batch that have ended. `_blocking`: ids that dependents wait for. `_handing`: positions
-- that hand over.
CREATE OR REPLACE FUNCTION settle_in_order(
    _now float8, _ns bigint[], _ids text[], _fences integer[], _nonces bigint[], _states text[], _results text[], _errors text[],
    _transitions json[], _payloads bytea[], _runs text[], _ended integer[], _blocking text[], _ended_runs bigint[], _run_ends integer[],
    _handing integer[], _handed_runs bigint[], _handed_keyed boolean[], _coming json, _unkept bigint[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    _kind text := '';
    _action record;
    _closed text[] := '{}';
    _closed_with text[] := '{}';
    _closed_at integer[] := '{}';
    _from integer := 1;
    _to integer := 0;
    _going bigint[] := '{}';
    _verdicts text[];
BEGIN
    _verdicts := array_fill('ok'::text, ARRAY[cardinality(_ns)]);
    FOR _action IN
        SELECT at, CASE WHEN state = 'succeeded' THEN 'close' ELSE 'follow' END AS kind, id FROM (
            SELECT at, state, id FROM unnest(_ids, _states) WITH ORDINALITY AS wanted (id, state, at)
            WHERE at = ANY (_ended) AND id = ANY (_blocking)
              -- Dependents of a first step that hands over wait for its run, which goes on.
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
        IF _action.kind = 'unkept' THEN
            _going := _going || _ns[_action.at];
            CONTINUE;
        END IF;
        IF _kind <> _action.kind THEN
            IF _kind = 'close' THEN
                PERFORM close_edges(_now, _closed, _closed_with, _closed_at);
                _closed := '{}';
                _closed_with := '{}';
                _closed_at := '{}';
            ELSIF _kind = 'hand over' THEN
                PERFORM enqueue_successors(_now, _handed_runs[_from : _to], _handed_keyed[_from : _to], (
                    SELECT json_agg(new ORDER BY at) FROM json_array_elements(_coming) WITH ORDINALITY AS each (new, at)
                    WHERE at BETWEEN _from AND _to
                ));
                _from := _to + 1;
            END IF;
            _kind := _action.kind;
        END IF;
        IF _kind IN ('settle', 'end') AND cardinality(_going) > 0 THEN
            PERFORM remove_unkept(_now, _going);
            _going := '{}';
        END IF;
        CASE _kind
            WHEN 'close' THEN
                _closed := _closed || _action.id;
                _closed_with := _closed_with || _results[_action.at];
                _closed_at := _closed_at || _action.at::integer;
            WHEN 'follow' THEN
                _going := _going || propagate_end(_now, _ns[_action.at]);
            WHEN 'hand over' THEN
                _to := _to + 1;
            WHEN 'settle' THEN
                _verdicts[_action.at] := settle_one(
                    _now, _ids[_action.at], _fences[_action.at], _nonces[_action.at], _states[_action.at], _results[_action.at],
                    _errors[_action.at],
                    CASE WHEN _runs[_action.at] IS NULL OR _states[_action.at] IS NULL THEN _transitions[_action.at] ELSE '{"kind": "again"}' END,
                    _payloads
                );
            ELSE
                EXIT;
        END CASE;
    END LOOP;
    RETURN _verdicts;
END
$$;
