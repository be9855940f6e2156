"""Short names of searched keys: the fewest last parts that tell them apart."""

from typing import Any

import pytest

from results.stats.texts import MAX_NAMES, change_text, named, short_keys, value_texts


def test_keys_have_the_fewest_last_parts_that_differ() -> None:
    keys = ["optimizer.learning_rate", "optimizer.head_learning_rate", "encoder.dropout"]
    assert list(short_keys(keys).values()) == ["learning_rate", "head_learning_rate", "dropout"]
    keys = ["tasks.sst.loss", "tasks.qqp.loss", "model"]
    assert short_keys(keys) == dict(zip(keys, ["sst.loss", "qqp.loss", "model"], strict=True))
    assert (
        short_keys(["stages.1.sum_losses", "tasks.sst.loss", "tasks.qqp.loss"])["stages.1.sum_losses"] == "sum_losses"
    )
    assert short_keys(["smart.weight", "a.STS"], "STS") == {"smart.weight": "weight", "a.STS": "a.STS"}
    assert short_keys([]) == {}


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, ""), (1, "t0"), (MAX_NAMES, "t0, t1, t2, t3, t4"), (7, "t0, t1, t2, t3, t4 and 2 more")],
)
def test_names_beyond_the_first_are_counted(number: int, expected: str) -> None:
    assert named([f"t{place}" for place in range(number)]) == expected


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ((0.1, None, (1, 2)), ["0.1", "none", "1-2"]),
        ((0.1, 0.12345671, 0.12345672), ["0.1", "0.12345671", "0.12345672"]),
        ((0.1 + 0.2, 0.3), ["0.30000000000000004", "0.3"]),
        ((None, "none"), ["None", "'none'"]),
        ((), []),
    ],
)
def test_values_with_equal_short_texts_are_written_out(values: tuple[Any, ...], names: list[str]) -> None:
    assert value_texts(values) == names


def test_only_a_leading_zero_of_a_change_is_left_out() -> None:
    changes = (0.04, -0.04, 10.04, -20.5, 0.0)
    assert list(map(change_text, changes)) == ["+.040", "-.040", "+10.040", "-20.500", "+.000"]
