"""Tests as a user of Django writes them. tests/django/test_runners.py runs them with several runners and databases."""

from __future__ import annotations

import os
import threading

from asgiref.sync import sync_to_async
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings

from tenure.django.address import is_in_memory
from tenure.django.testing import forget_tasks, run_tasks
from tenure.errors import InvalidOption

from . import tasks
from .models import Order

HERE = threading.current_thread().name


class InATransaction(TestCase):
    """Django rolls back what these tests do."""

    def test_a_task_can_be_read_where_it_was_enqueued(self) -> None:
        result = tasks.add.enqueue(1)
        result.refresh()
        self.assertEqual((result.status, tasks.add.get_result(result.id).args), ("READY", [1]))

    def test_tasks_run_in_the_transaction_if_they_are_in_memory(self) -> None:
        Order.objects.create(name="one")
        result = tasks.count_orders.enqueue()
        if not is_in_memory("default"):
            with self.assertRaisesRegex(InvalidOption, "TransactionTestCase"):
                run_tasks()
            return
        run_tasks()
        result.refresh()
        self.assertEqual(result.return_value, [1, HERE])

    def test_async_methods_of_models_see_the_transaction(self) -> None:
        if is_in_memory("default"):
            forget_tasks()
            Order.objects.create(name="one")
            tasks.acount_orders.enqueue()
            self.assertEqual([each.return_value for each in run_tasks()], [[1, HERE]])

    async def test_async_tests_run_async_tasks(self) -> None:
        if is_in_memory("default"):
            await sync_to_async(forget_tasks)()
            await Order.objects.acreate(name="one")
            await tasks.acount_orders.aenqueue()
            ran = await sync_to_async(run_tasks)()
            self.assertEqual([each.return_value for each in ran], [[1, HERE]])

    def test_the_database_is_whole(self) -> None:
        """What `migrate` wrote after the tables of Tenure is in each copy of the database too."""
        self.assertTrue(ContentType.objects.filter(app_label="shop").exists())

    def test_callbacks_of_the_commit_can_be_captured(self) -> None:
        with self.captureOnCommitCallbacks() as callbacks:
            tasks.add.using(backend="after").enqueue(1)
        self.assertEqual(len(callbacks), 1)

    @override_settings(
        TASKS={"default": {"BACKEND": "tenure.django.TenureBackend", "OPTIONS": {"URL": "memory://override"}}}
    )
    def test_settings_can_be_overridden(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            result = tasks.add.enqueue(1)
        self.assertEqual([each.id for each in run_tasks()], [result.id])


class Committed(TransactionTestCase):
    """These commit, and Django empties its own tables afterwards."""

    def setUp(self) -> None:
        forget_tasks()

    def test_tasks_run(self) -> None:
        Order.objects.create(name="one")
        result = tasks.count_orders.enqueue()
        self.assertEqual([each.id for each in run_tasks()], [result.id])
        result.refresh()
        self.assertEqual(result.return_value, [1, HERE])

    def test_each_test_begins_without_tasks(self) -> None:
        self.assertEqual(run_tasks(), [])
        tasks.fail.enqueue("no")
        with self.assertLogs("tenure.jobs") as logs:
            [failed] = run_tasks()
        self.assertEqual(len(logs.records), 1)
        self.assertEqual(failed.errors[0].exception_class, tasks.ShopError)


class CommittedElsewhere(TransactionTestCase):
    """In a process with `--parallel`, on a copy of the database."""

    def test_tasks_run(self) -> None:
        forget_tasks()
        tasks.add.enqueue(1)
        self.assertEqual([each.return_value for each in run_tasks()], [2])

    def test_it_is_a_test_database(self) -> None:
        name = str(connection.settings_dict["NAME"])
        self.assertTrue("test" in name or "memory" in name, (name, os.getpid()))


class WithoutADatabase(SimpleTestCase):
    """Jobs would be stored in the real database, and a worker would run them."""

    def test_jobs_are_refused(self) -> None:
        if is_in_memory("default"):
            return
        for use in (lambda: tasks.add.enqueue(1), lambda: tasks.add.get_result("x"), run_tasks, forget_tasks):
            with self.assertRaisesRegex(AssertionError, "not allowed in SimpleTestCase"):
                use()
