-- report_changes: Report to the client what happened to jobs that its call did not name, as messages of level INFO that
-- arrive before the answer. So no operation has to return what is rare. Sends nothing in a caller's
-- transaction.
--
-- A message is sent at once, even if a caught error rolls back what it reports. The block that catches the error then
-- calls `retract_reports`.
CREATE OR REPLACE FUNCTION report_changes(_changes text[], _ns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(cardinality(_ns), 0) = 0 THEN
        RETURN;
    END IF;
    PERFORM report_json(json_agg(json_build_array(each.change, j.id, j.task, j.queue) ORDER BY each.at))
    FROM unnest(_changes, _ns) WITH ORDINALITY AS each (change, n, at) JOIN jobs j ON j.n = ANY (ARRAY[each.n]);
END
$$;
