-- trim_attempts: delete all but the latest ?2 recorded attempts of the job with the number ?1.
DELETE FROM tenure_attempts WHERE job = ?1 AND fence <= (
    SELECT fence FROM tenure_attempts WHERE job = ?1 ORDER BY fence DESC LIMIT 1 OFFSET ?2
)
