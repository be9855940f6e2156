"""A claim is read as it is typed, and its space has the two configurations that it compares."""

from dataclasses import replace

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from search_spaces.claim import BETTER, WORSE, Claim, claim_space, read_claim
from search_spaces.domain import expand_tasks
from search_spaces.presets import general
from search_spaces.space import grid_configs, grid_trials, trial_config
from tests.one_line_error import one_line_error

BASE = general(TASKS).override({"smart.weight": 0.25, "smart.num_steps": 3})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1 beats a.b=0", Claim(better={"a.b": "1"}, worse={"a.b": "0"})),
        ("a.b=1 beats a.b=0 by 0.005", Claim(better={"a.b": "1"}, worse={"a.b": "0"}, margin=0.005)),
        ("a.b=1 beats a.b=0 in sst", Claim(better={"a.b": "1"}, worse={"a.b": "0"}, task="sst")),
        ("a.b=1 beats base by 1e-3 in sst", Claim(better={"a.b": "1"}, worse={}, margin=0.001, task="sst")),
        ("base beats  a.b=1", Claim(better={}, worse={"a.b": "1"})),
        ("a=1 b=2 beats c=3", Claim(better={"a": "1", "b": "2"}, worse={"c": "3"})),
        ("a=1 beats a=0 by 0", Claim(better={"a": "1"}, worse={"a": "0"})),
        ("'a=x y' beats base", Claim(better={"a": "x y"}, worse={})),
        ('a="by the sea" beats a=in', Claim(better={"a": "by the sea"}, worse={"a": "in"})),
        ("a=p=q beats a=", Claim(better={"a": "p=q"}, worse={"a": ""})),
    ],
)
def test_claim_is_read_from_its_parts(text: str, expected: Claim) -> None:
    assert read_claim(text) == expected


@pytest.mark.parametrize(
    "claim",
    [
        Claim(better={"a.b": "1"}, worse={"a.b": "0"}),
        Claim(better={"a": "1", "b": "2"}, worse={}, margin=0.005),
        Claim(better={}, worse={"a": "1"}, margin=1e-7, task="sst"),
        Claim(better={"a": "it's here", "b": "[x,y]"}, worse={"a": 'say "hi"', "b": ""}),
        Claim(better={"tasks.*.batch_size": "8"}, worse={"tasks.*.batch_size": "$HOME \\ *"}, task="qqp"),
    ],
)
def test_text_of_a_claim_is_read_as_the_claim(claim: Claim) -> None:
    assert read_claim(claim.text) == claim


def test_margin_keeps_all_its_digits_in_the_text() -> None:
    claim = read_claim("a=1 beats a=0 by 0.00123456789")
    assert read_claim(claim.text).margin == 0.00123456789


@pytest.mark.parametrize(
    "text",
    [
        *("", "a=1", "beats", "a=1 beats", "beats a=1", "a=1 is better than a=0", "a=1 beats a=0 beats a=2"),
        *("a=1 Beats a=0", "'a=1 beats a=0", "'a=1 beats a=0'"),
    ],
)
def test_text_of_another_form_is_refused_with_an_example(text: str) -> None:
    message = one_line_error(read_claim, text)
    assert message.startswith("--claim must be ")
    example = message.split("'")[1]
    assert read_claim(example).margin > 0
    assert message.endswith(f"got {text!r}")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a=1 beats a=1", "two configurations that differ"),
        ("b=2 a=1 beats a=1 b=2 by 0.1", "two configurations that differ"),
        ("base beats base", "two configurations that differ"),
        ("a=1 a=2 beats base", "each key once on a side, got a=1 a=2"),
        ("base beats b=1 a=1 b=1", "each key once on a side"),
        ("a beats base", "KEY=VALUE, e.g. smart.weight=1, got 'a'"),
        ("a=1 beats b", "KEY=VALUE, e.g. smart.weight=1, got 'b'"),
        ("a=1 base beats b=1", "KEY=VALUE"),
    ],
)
def test_side_that_is_no_configuration_of_its_own_is_refused(text: str, rule: str) -> None:
    message = one_line_error(read_claim, text)
    assert message.startswith("--claim must ")
    assert rule in message


@pytest.mark.parametrize("margin", ["-0.001", "nan", "inf", "5%", "much"])
def test_margin_is_a_number_of_at_least_0(margin: str) -> None:
    message = one_line_error(read_claim, f"a=1 beats a=0 by {margin} in sst")
    assert "a number of at least 0" in message
    assert message.endswith(f"got {margin}")


@pytest.mark.parametrize("margin", [0.0, 0.999])
def test_margins_at_the_ends_of_the_range_are_allowed(margin: float) -> None:
    assert read_claim(f"a=1 beats a=0 by {margin}").margin == margin


def pair_of(text: str, base: TrialConfig = BASE) -> tuple[TrialConfig, TrialConfig]:
    """The configuration that is claimed to be worse, and the better one, by their numbers in the grid."""
    configs = grid_configs(claim_space(base, "overall", read_claim(text)))
    assert len(configs) == 2
    return configs[WORSE], configs[BETTER]


def test_first_configuration_is_the_one_that_is_claimed_to_be_beaten() -> None:
    worse, better = pair_of("smart.weight=1 beats smart.weight=0")
    assert (WORSE, BETTER) == (0, 1)
    assert (worse.smart.weight, better.smart.weight) == (0.0, 1.0)
    assert worse == BASE.override({"smart.weight": 0.0})
    assert better == BASE.override({"smart.weight": 1.0})


def test_base_of_the_space_is_the_side_that_is_claimed_to_be_beaten() -> None:
    for text, weight in (("smart.weight=1 beats base", 0.25), ("base beats smart.weight=1", 1.0)):
        space = claim_space(BASE, "overall", read_claim(text))
        assert space.base == BASE.override({"smart.weight": weight}) == grid_configs(space)[WORSE]


def test_keys_of_both_sides_vary_together() -> None:
    worse, better = pair_of("smart.weight=1 optimizer.learning_rate=1e-4 beats smart.weight=0 smart.num_steps=2")
    rate = BASE.optimizer.learning_rate
    assert (worse.smart.weight, worse.smart.num_steps, worse.optimizer.learning_rate) == (0.0, 2, rate)
    assert (better.smart.weight, better.smart.num_steps, better.optimizer.learning_rate) == (1.0, 3, 1e-4)


def test_key_that_one_side_leaves_out_has_the_value_of_the_base() -> None:
    worse, better = pair_of("smart.num_steps=1 beats smart.weight=0.5")
    assert (worse.smart.weight, worse.smart.num_steps) == (0.5, 3)
    assert (better.smart.weight, better.smart.num_steps) == (0.25, 1)


def test_key_of_all_tasks_changes_each_of_them() -> None:
    worse, better = pair_of("tasks.*.batch_size=5 beats base")
    assert {settings.batch_size for settings in better.tasks.values()} == {5}
    assert worse == BASE


def test_score_that_decides_is_of_the_task_that_the_claim_names() -> None:
    for text, metric in (("smart.weight=1 beats base in sst", "sst"), ("smart.weight=1 beats base", "overall")):
        assert claim_space(BASE, "overall", read_claim(text)).metric == metric
    assert claim_space(BASE, "qqp", read_claim("smart.weight=1 beats base")).metric == "qqp"


def test_question_of_the_space_has_the_claim() -> None:
    text = "smart.weight=1 beats base by 0.01 in sst"
    assert text in claim_space(BASE, "overall", read_claim(text)).question


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("smart.wieght=1 beats base", "did you mean 'smart.weight'"),
        ("base beats smart.wieght=1", "did you mean 'smart.weight'"),
        ("smart.weight=much beats base", "smart.weight must be a number, got 'much'"),
        ("smart.weight=-1 beats base", "smart.weight must be "),
        ("smart.weight=1 beats base in ssst", "did you mean 'sst'"),
        ("smart.weight=1 beats smart.weight=1.0", "the same configuration"),
        ("base beats smart.weight=0.25", "the same configuration"),
    ],
)
def test_claim_that_does_not_fit_the_base_is_refused_in_one_line(text: str, why: str) -> None:
    message = one_line_error(claim_space, BASE, "overall", read_claim(text))
    assert message.startswith("--claim: ")
    assert why in message


@pytest.mark.parametrize(
    "text",
    [
        "tasks.*.batch_size=32 beats base",
        "base beats tasks.*.batch_size=32",
        "tasks.*.batch_size=16 beats tasks.sst.batch_size=64",
        "tasks.*.batch_size=32 smart.weight=1 beats base",
    ],
)
def test_tasks_that_differ_in_the_base_stay_as_they_are(text: str) -> None:
    """A key of all tasks has no single value there."""
    base = general(TASKS).override({"tasks.sst.batch_size": 8, "tasks.sts.batch_size": 10})
    claim = read_claim(text)
    space = claim_space(base, "overall", claim)
    sides = (claim.worse, claim.better)
    wanted = [base.override(expand_tasks(side, base.active_tasks)) for side in sides]
    assert [trial_config(space, params) for params in grid_trials(space)] == wanted
    assert space.base == wanted[0]


@pytest.mark.parametrize(
    "text",
    [
        "tasks.*.batch_size=16 beats stages.0.tasks=[sst] in sst",
        "base beats stages.0.tasks=[sst] tasks.*.batch_size=16 in sst",
        "stages.0.tasks=[sst] tasks.*.batch_size=16 beats stages.0.tasks=[sst,qqp] in sst",
        "base beats stages.0.tasks=[sst] tasks.*.batch_size=16 tasks.sst.batch_size=8 in sst",
    ],
)
def test_sides_may_train_different_tasks(text: str) -> None:
    base, claim = general(TASKS), read_claim(text)
    space = claim_space(base, "overall", claim)
    wanted = [base.override(expand_tasks(side, base.active_tasks)) for side in (claim.worse, claim.better)]
    assert grid_configs(space) == wanted
    assert space.metric == "sst"


def test_claim_is_about_a_task_that_both_sides_train() -> None:
    message = one_line_error(claim_space, general(TASKS), "overall", read_claim("base beats stages.0.tasks=sst in qqp"))
    assert "both sides train" in message


def test_error_may_be_lower_by_more_than_1() -> None:
    tasks = {**TASKS, "sts": replace(TASKS["sts"], metric="rmse")}
    claim = read_claim("smart.weight=1 beats base by 2.5 in sts")
    assert claim_space(general(tasks), "overall", claim).metric == "sts"
    message = one_line_error(claim_space, general(TASKS), "overall", claim)
    assert "less than 1" in message
