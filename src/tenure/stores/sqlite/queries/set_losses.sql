-- set_losses: store the number of losses ?2 of the job ?1, which fails because of them.
UPDATE tenure_jobs SET losses = ?2 WHERE id = ?1
