-- set_losses: a job that fails as lost keeps the count.
UPDATE tenure_jobs SET losses = ?2 WHERE id = ?1
