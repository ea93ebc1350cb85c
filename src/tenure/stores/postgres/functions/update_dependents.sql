-- update_dependents: Propagate the end of a job to its dependents, breadth first: close their edges, put those without
-- an open edge in line, fail those that fail with their blocker, and go on with the dependents of these. Returns the
-- numbers of the jobs that failed.
--
-- `_blockers`: the ids that end together (of a last step, and of its run). `_ended`: the final state, or deleted.
-- `_only`: just this dependent, which has been enqueued in this transaction.
--
-- Race: two blockers of one job end at the same time. Edges are locked first, then dependents, each in order; the
-- second transaction waits for the first and then counts the edges that are left. `retry` locks the edges of a job
-- before it counts them.
CREATE OR REPLACE FUNCTION update_dependents(
    _now float8, _blockers text[], _ended text, _result text, _error text, _only bigint DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    _failed bigint[] := '{}';
    _at integer := 0;
    _dependent record;
    _left integer;
    _changes text[] := '{}';
    _changed bigint[] := '{}';
BEGIN
    LOOP
        PERFORM FROM edges
        WHERE blocker = ANY (_blockers) AND open AND (_only IS NULL OR dependent = _only)
        ORDER BY dependent, position FOR UPDATE;
        IF FOUND THEN
            PERFORM FROM live
            WHERE n IN (
                SELECT dependent FROM edges WHERE blocker = ANY (_blockers) AND open AND (_only IS NULL OR dependent = _only)
            )
            ORDER BY n FOR UPDATE;
            FOR _dependent IN
                SELECT j.n, j.if_blocker_fails, l.state, count(*)::integer AS edges,
                       (array_agg(d.blocker ORDER BY d.position))[1] AS blocker
                FROM edges d JOIN jobs j ON j.n = ANY (ARRAY[d.dependent])
                LEFT JOIN live l ON l.n = ANY (ARRAY[j.n]) LEFT JOIN ended e ON e.n = ANY (ARRAY[j.n])
                WHERE d.blocker = ANY (_blockers) AND d.open AND (_only IS NULL OR d.dependent = _only)
                GROUP BY j.n, l.state, l.seq, e.seq
                ORDER BY coalesce(l.seq, e.seq)
            LOOP
                IF _ended = 'succeeded' OR _dependent.if_blocker_fails = 'proceed' THEN
                    UPDATE edges SET
                        open = false,
                        result = CASE WHEN _ended = 'succeeded' THEN _result ELSE failure_text(blocker, _ended, _error) END
                    WHERE dependent = _dependent.n AND blocker = ANY (_blockers) AND open;
                    UPDATE live SET blocked_by = blocked_by - _dependent.edges
                    WHERE n = _dependent.n AND state = 'blocked' RETURNING blocked_by INTO _left;
                    IF FOUND AND _left = 0 THEN
                        PERFORM join_line(_now, _dependent.n, _only IS NOT NULL);
                        IF _only IS NULL THEN
                            _changes := _changes || 'unblocked'::text;
                            _changed := _changed || _dependent.n;
                        END IF;
                    END IF;
                ELSIF _dependent.state = 'blocked' AND (_dependent.if_blocker_fails = 'fail' OR _ended = 'deleted') THEN
                    PERFORM record_end(_now, _dependent.n, 'failed', NULL, 'blocker ' || _ended || ' ' || _dependent.blocker);
                    _failed := _failed || _dependent.n;
                    _changes := _changes || 'failed'::text;
                    _changed := _changed || _dependent.n;
                END IF;
            END LOOP;
        END IF;
        EXIT WHEN _at >= cardinality(_failed);
        _at := _at + 1;
        _only := NULL;
        SELECT ends_as, 'failed', NULL, error INTO _blockers, _ended, _result, _error FROM end_details(_failed[_at]);
    END LOOP;
    PERFORM report_changes(_changes, _changed);
    RETURN _failed;
END
$$;
