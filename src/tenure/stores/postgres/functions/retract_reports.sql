-- retract_reports: whatever was noted beyond those messages that count has been undone. Called where an error is caught, which also takes
-- `reports_sent` back to what it was.
CREATE OR REPLACE FUNCTION retract_reports() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE INFO USING ERRCODE = 'TN011', MESSAGE = 'undone', DETAIL = reports_sent();
END
$$;
