-- next_schedule: when the soonest active schedule is due.
SELECT next FROM tenure_schedules WHERE active = 1 AND next IS NOT NULL ORDER BY next LIMIT 1
