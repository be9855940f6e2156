"""The sentence that no difference is claimed names the task, its groups and the rule."""

import numpy as np
import pytest

from results.answers.group_words import few_groups_words
from results.stats.groups import DrawnGroups, drawn_groups


def drawn(num_examples: int, num_groups: int, largest: int) -> DrawnGroups:
    """The first group is the largest."""
    rest = np.arange(num_examples - largest) % max(1, num_groups - 1) + 1
    groups = np.concatenate([np.zeros(largest, dtype=np.intp), rest])
    return drawn_groups(np.zeros((1, num_examples)), groups)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (drawn(400, 7, 90), "dev rows of SST in 7 groups (at least 10 are needed)"),
        (
            drawn(400, 1, 400),
            "dev rows of SST in 1 group (at least 10 are needed, and --resume writes",
        ),
        (drawn(100, 12, 81), "dev rows of SST in 12 groups (the largest has 81% of the rows, and 80% is the most)"),
    ],
)
def test_the_rule_that_is_broken_is_named(groups: DrawnGroups, words: str) -> None:
    assert few_groups_words({"SST": groups}).startswith(f"no difference can be claimed from {words}")


def test_several_tasks_stand_in_one_sentence() -> None:
    found = few_groups_words({"SST": drawn(40, 2, 20), "STS": drawn(50, 3, 20)})
    assert "of SST in 2 groups" in found
    assert " and dev rows of STS in 3 groups" in found
