"""`Cron`, `Every` and `At`: what they accept, and how they show themselves."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.ticks import next_tick
from tenure.core.when import ALIASES, LONGEST_TEXT, At, Cron, Every, When, words
from tenure.errors import InvalidSchedule, TenureError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (5, "takes a text such as '0 3 \\* \\* \\*', not 5"),
        (None, "takes a text"),
        ("", "wrong number of fields"),
        ("* * * *", "wrong number of fields"),
        ("* * * * * * *", "wrong number of fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("60 * * * * *", "bad second"),
        ("5-1 * * * *", "bad minute"),
        ("*/0 * * * *", "bad minute"),
        ("-1 * * * *", "bad minute"),
        ("1,,2 * * * *", "bad minute"),
        ("* * * * MON#6", "bad day-of-week"),
        ("* * * * MON#2/2", "bad day-of-week"),
        ("* * L,W * *", "bad day-of-month"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 31 4,6 *", "bad day-of-month"),
        ("every day", "wrong number of fields"),
        ("@reboot", "of those with an @ there are @yearly"),
        ("@", "of those with an @"),
        ("0 " * LONGEST_TEXT, "at most 200 characters, got 399"),
        ("٣ * * * *", "bad minute"),
        ("* * * * *\0", "bad day-of-week"),
    ],
)
def test_a_wrong_cron_text_is_one_line_that_says_why(text: Any, says: str) -> None:
    refused(lambda: Cron(text), says)


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "Europe", "europe/paris/", "../etc/passwd", "a\0b", "\ud800", "x" * 9999]
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    refused(lambda: Cron("* * * * *", zone), "there is no time zone .*: use a name of the IANA database")


@pytest.mark.parametrize("zone", [None, 1, UTC])
def test_a_time_zone_is_a_name(zone: Any) -> None:
    refused(lambda: Cron("* * * * *", zone), "Cron takes the name of a time zone, such as 'Europe/Paris', not")


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        (0, "at least 1 s, not 0"),
        (0.999, "at least 1 s, not 0.999"),
        (-60, "at least 1 s, not -60"),
        (timedelta(milliseconds=1), "at least 1 s, not 0.001"),
        (math.nan, "a finite number of seconds or a timedelta, not nan"),
        (math.inf, "not inf"),
        ("60", "not '60'"),
        (True, "not True"),
        (None, "not None"),
    ],
)
def test_a_wrong_interval_is_refused(interval: Any, says: str) -> None:
    refused(lambda: Every(interval), f"Every must be .*{says}")


@pytest.mark.parametrize(
    ("instant", "says"),
    [
        (datetime(2026, 1, 1), "At must have a time zone, got the naive 2026-01-01T00:00:00: add"),
        ("2026-01-01T00:00:00Z", "At must be a datetime, not '2026-01-01T00:00:00Z'"),
        (1e9, "At must be a datetime, not 1000000000.0"),
        (None, "At must be a datetime, not None"),
    ],
)
def test_a_wrong_instant_is_refused(instant: Any, says: str) -> None:
    refused(lambda: At(instant), says)


def refused(make: Any, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says) as refusal:
        make()
    assert isinstance(refusal.value, ValueError)
    assert isinstance(refusal.value, TenureError)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


@given(st.text("0123456789*,-/#LWMONJA@ ", max_size=20) | st.text(max_size=20))
def test_any_text_is_a_cron_or_is_refused(text: str) -> None:
    for whole in (text, f"{text} * * * *", f"0 0 {text} * *", f"0 0 * * {text}"):
        try:
            cron = Cron(whole, "Europe/Paris")
        except InvalidSchedule:
            continue
        assert words(cron)
        assert next_tick(cron, NOON.timestamp()) is not None


def test_blanks_of_a_text_do_not_matter() -> None:
    assert Cron("  0  3\t* *\n* ") == Cron("0 3 * * *")


@pytest.mark.parametrize(("alias", "fields"), ALIASES.items())
def test_an_alias_stands_for_its_fields(alias: str, fields: str) -> None:
    assert Cron(alias).fields == Cron(alias.upper()).fields == fields
    assert str(Cron(alias)) == alias


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("0 3 * * *", True),
        ("0,30 1-5 * * MON", True),
        ("@daily", True),
        ("*/10 30 3 * * *", True),
        ("* 3 * * *", False),
        ("0 * * * *", False),
        ("0 */2 * * *", False),
        ("0 1-9/2 * * *", False),
        ("5/20 3 * * *", False),
        ("@hourly", False),
    ],
)
def test_a_cron_names_times_or_says_how_often(text: str, fixed: bool) -> None:
    assert Cron(text).fixed is fixed


@pytest.mark.parametrize(
    ("when", "text", "sentence"),
    [
        (Cron("0 3 * * *"), "0 3 * * *", "At 03:00 every day, UTC time"),
        (Cron("@daily", "Europe/Paris"), "@daily (Europe/Paris)", "At 00:00 every day, Europe/Paris time"),
        (Every(1), "every second", "Every second"),
        (Every(90), "every 90 seconds", "Every 90 seconds"),
        (Every(1.5), "every 1.5 seconds", "Every 1.5 seconds"),
        (Every(60), "every minute", "Every minute"),
        (Every(timedelta(hours=2)), "every 2 hours", "Every 2 hours"),
        (Every(timedelta(days=1)), "every day", "Every day"),
        (At(NOON), "at 2026-01-01 12:00:00+00:00", "At 2026-01-01 12:00:00+00:00, once"),
    ],
)
def test_people_can_read_it(when: When, text: str, sentence: str) -> None:
    assert (str(when), words(when)) == (text, sentence)


@pytest.mark.parametrize(
    "text", ["0 9 LW * *", "0 9 L * *", "0 9 * * MON#2", "0 9 * * 5L", "30 0 9 1,15 JAN-MAR MON,WED"]
)
def test_every_pattern_has_a_sentence(text: str) -> None:
    assert "09:00" in words(Cron(text))


@pytest.mark.parametrize("when", [Cron("@daily", "Asia/Tokyo"), Every(timedelta(minutes=5)), Every(1.5), At(NOON)])
def test_it_comes_back_from_json_as_it_was(when: When) -> None:
    assert msgspec.json.decode(msgspec.json.encode(when), type=When) == when
