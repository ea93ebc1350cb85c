"""The bridge to Guild queues: its layout in Redis, the attributes of its jobs, and the tasks that serve its queues."""
