"""The core: values (jobs, leases, outcomes) and pure decisions about them. No I/O, and no clock is read."""
