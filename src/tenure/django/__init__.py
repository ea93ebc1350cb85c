"""Django: `TenureBackend` runs the tasks of `django.tasks` (Django 6) or `django_tasks` (before) as jobs of Tenure.

```python
INSTALLED_APPS = [..., "tenure.django"]
TASKS = {"default": {"BACKEND": "tenure.django.TenureBackend"}}
```

docs/django.md describes it. How a task passes through the modules:

1. Django calls `validate_task` of `backend.py` for every decorated function. `registry.py` adds the function to the apps
   of this process, wrapped by `running.py`: context, signals, old connections.
2. `enqueue` computes the URL from the settings of the connection (`address.py`), and enqueues on Django's connection if
   that is in a transaction.
3. `manage.py tenure work` is `tenure work tenure.django.target:default`: `target.py` sets Django up and imports the tasks
   of all apps. From here on it is an ordinary worker.
4. `get_result` reads the job, in a transaction by the work that `Store.getting` describes, and `results.py` makes a
   `TaskResult` of it.
"""

from __future__ import annotations

from tenure.django.backend import TenureBackend
from tenure.django.task import TenureTask, task

__all__ = ["TenureBackend", "TenureTask", "task"]
