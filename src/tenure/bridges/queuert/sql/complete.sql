-- complete: end the rows of these jobs ($2) with their outputs ($3), or with the next row of the chain (its type $4, its input $5).
-- Only what we still hold. Answers the chain of each row that ended, and the type of the row that follows in it.
WITH
-- include: held
, ended AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS e(job_id, output, next_type, next_input)
), completed AS (
    UPDATE queuert.job AS j
    SET status = 'completed', output = nullif(ended.output, 'null')::jsonb, completed_at = now(), completed_by = j.leased_by,
        leased_by = NULL, leased_until = NULL
    FROM held
    JOIN ended USING (job_id)
    WHERE j.id = held.id
    RETURNING j.chain_id, j.chain_type_name, j.chain_index, ended.next_type, ended.next_input
), continued AS (
    INSERT INTO queuert.job (id, type_name, chain_id, chain_type_name, chain_index, input)
    SELECT gen_random_uuid(), next_type, chain_id, chain_type_name, chain_index + 1, nullif(next_input, 'null')::jsonb
    FROM completed
    WHERE next_type IS NOT NULL
)
SELECT chain_id, next_type FROM completed
