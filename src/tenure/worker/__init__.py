"""What runs jobs. `worker.py` has its life, `loop.py` its work, `executor.py` the life of a job, `keeper.py` what keeps its lease alive."""
