-- retract_reports: Tell the client that an error was caught: reports beyond `reports_sent`, which was rolled back too,
-- do not count.
CREATE OR REPLACE FUNCTION retract_reports() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE INFO USING ERRCODE = 'TN011', MESSAGE = 'undone', DETAIL = reports_sent();
END
$$;
