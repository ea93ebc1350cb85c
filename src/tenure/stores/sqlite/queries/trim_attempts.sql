-- trim_attempts: only the latest ?2 attempts of the job with the number ?1 are remembered.
DELETE FROM tenure_attempts WHERE job = ?1 AND fence <= (
    SELECT fence FROM tenure_attempts WHERE job = ?1 ORDER BY fence DESC LIMIT 1 OFFSET ?2
)
