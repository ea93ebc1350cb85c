-- entry: the entry of a row named `taken`, as a part of other statements. Results are the outputs of the chains that it waited for.
jsonb_build_object(
    'row', taken.id,
    'attempt', taken.attempt,
    'input', taken.input,
    'results', (
        SELECT jsonb_agg(
            (SELECT last.output FROM queuert.job AS last
             WHERE last.chain_id = blocker.blocked_by_chain_id ORDER BY last.chain_index DESC LIMIT 1)
            ORDER BY blocker.index
        )
        FROM queuert.job_blocker AS blocker
        WHERE blocker.job_id = taken.id
    )
)::text AS entry
