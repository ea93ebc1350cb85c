"""The codes and words that Redis scripts answer with stand in one table."""

from __future__ import annotations

import pytest

from tenure.stores.redis.replies import with_literals
from tenure.stores.redis.scripts import scripts


def test_a_name_in_a_script_becomes_its_literal() -> None:
    source = "return { Code.REFUSED, Refused.NOT_FINAL, RecordedError.LOST }"

    assert with_literals(source) == "return { 3, 'not final', 'lost' }"


def test_an_unknown_name_is_found_when_the_script_is_loaded() -> None:
    with pytest.raises(KeyError, match="NO_SUCH_WORD"):
        with_literals("return Refused.NO_SUCH_WORD")


def test_no_script_is_loaded_with_a_name_left_in_it() -> None:
    assert {name for name, script in scripts.items() if script.source != with_literals(script.source)} == set()
