"""Values and pure decisions: jobs, leases, outcomes, and what follows from them. No I/O and no clock."""
