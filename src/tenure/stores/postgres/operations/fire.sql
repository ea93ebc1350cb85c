-- fire: Carry out each firing that names the current version of its schedule: decide by the state of the last job
-- whether its jobs are enqueued, enqueue them, and move the schedule on. Returns a row for each of these firings: its
-- position in the call, and what became of each of its jobs, as JSON. The firings are carried out in the order of the
-- call; each sees those before it.
--
-- `_firings`: a JSON array as `fire_arguments` in schedules.py writes it. The jobs of all firings stand in `_ids`,
-- `_jobs` (the JSON of each, as `new_jobs` reads it), `_payloads` and `_special` (whether it has a unique key). `first`
-- is the position of the first job of a firing there. `_most`: how many ticks a schedule remembers.
--
-- Race: two callers that fire the same tick. The second waits for the lock of the schedule, and finds another version.
-- Schedules are locked first, in the order of their names; then the last jobs that new jobs wait for, and those that are
-- cancelled (`lock_last_jobs`).
--
-- A last job that only decides whether to skip is not locked, because a transaction that settles it may stay open for
-- long, and all other firings of the call would wait for it. If the job ends at the same moment, the firing came first.
--
-- Most jobs are plain. These are enqueued together, as late as possible: before a job that is not, before a job is
-- cancelled, before the state of one of them is needed, or at the end. A plain job is no duplicate, so the history of
-- its schedule can be written before.
CREATE OR REPLACE FUNCTION fire(
    _now float8, _firings json, _ids text[], _jobs text[], _payloads bytea[], _special boolean[], _most integer
) RETURNS TABLE (at bigint, fired text[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _firing record;
    _schedule schedules;
    _last text;
    _fired text[];
    _history text[];
    _plain integer[] := '{}';   -- positions of the jobs that are to be enqueued together
    _place integer;
    _overlap text;
    _current record;
    _job text;
    _answer record;
    _replaced text;
BEGIN
    _now := clock(_now);
    PERFORM FROM schedules WHERE name = ANY (ARRAY(SELECT name FROM json_to_recordset(_firings) AS (name text)))
    ORDER BY name FOR UPDATE;
    PERFORM lock_last_jobs(_firings);
    FOR _firing IN
        SELECT * FROM ROWS FROM (json_to_recordset(_firings) AS (
            name text, version bigint, overlap text, ends_as text, tick float8, next float8, entries text[], first integer, ticks float8[]
        )) WITH ORDINALITY AS each (name, version, overlap, ends_as, tick, next, entries, first, ticks, at)
    LOOP
        SELECT * INTO _schedule FROM schedules WHERE name = _firing.name FOR UPDATE;
        CONTINUE WHEN NOT FOUND OR _schedule.version <> _firing.version;
        _last := _schedule.last;
        _fired := '{}';
        FOR _number IN 1 .. cardinality(_firing.ticks) LOOP
            _place := _firing.first + _number - 1;
            _overlap := 'allow';
            _replaced := NULL;
            IF _firing.overlap <> 'allow' AND _last IS NOT NULL THEN
                IF _last = ANY (_ids) THEN
                    _plain := enqueue_chosen(_now, _jobs, _payloads, _plain);
                END IF;
                SELECT * INTO _current FROM current_step(_last, _firing.overlap);
                IF FOUND THEN
                    _overlap := CASE WHEN _firing.overlap = 'wait' AND NOT _current.begun THEN 'skip' ELSE _firing.overlap END;
                END IF;
            END IF;
            IF _overlap = 'skip' THEN
                _fired := _fired || tick_json(_now, _firing.ticks[_number], 'skipped', _last, NULL);
                CONTINUE;
            END IF;
            IF _overlap = 'allow' AND NOT _special[_place] THEN
                _plain := _plain || _place;
                _last := _ids[_place];
                _fired := _fired || tick_json(_now, _firing.ticks[_number], _firing.ends_as, _last, NULL);
                CONTINUE;
            END IF;
            _plain := enqueue_chosen(_now, _jobs, _payloads, _plain);
            _job := _jobs[_place];
            IF _overlap = 'wait' THEN
                _job := '{"after":' || to_json(ARRAY[_last]) || ',"if_blocker_fails":"proceed",' || substr(_job, 2);
            ELSIF _overlap = 'replace' THEN
                PERFORM cancel(_now, ARRAY[_current.id]);
                _replaced := _current.id;
            END IF;
            SELECT id, duplicate INTO _answer FROM enqueue_jobs(_now, ('[' || _job || ']')::json, _payloads[_place : _place], true);
            IF NOT _answer.duplicate THEN
                _last := _answer.id;
            END IF;
            _fired := _fired || tick_json(
                _now, _firing.ticks[_number], CASE WHEN _answer.duplicate THEN 'duplicate' ELSE _firing.ends_as END, _answer.id, _replaced
            );
        END LOOP;
        _history := _schedule.history;
        IF _firing.entries IS NOT NULL THEN
            _history := _history || ARRAY(
                SELECT '{"at":' || to_json(_now) || ',' || substr(entry, 2) FROM unnest(_firing.entries) WITH ORDINALITY AS given (entry, at)
                ORDER BY given.at
            );
        END IF;
        _history := _history || _fired;
        UPDATE schedules SET
            version = version + 1, next = _firing.next, tick = _firing.tick, last = _last,
            history = _history[cardinality(_history) - _most + 1 :]
        WHERE name = _firing.name;
        RETURN QUERY SELECT _firing.at, _fired;
    END LOOP;
    PERFORM enqueue_chosen(_now, _jobs, _payloads, _plain);
END
$$;
