"""How much of each task was trained is shown where sets of tasks differ in it."""

from dataclasses import replace

import pytest

from mtlib.tasks import TASKS
from results.answers.amount_words import MOST_ALIKE, amount_lines
from results.answers.answer import answer_question
from tests.results.answers.test_answer import sweep_of, value

ALONE = {("sst", "tokens"): 31_200.0, ("sst", "steps"): 300.0}
BOTH = {("sst", "tokens"): 10_400.0, ("sst", "steps"): 100.0, ("qqp", "tokens"): 70_000.0, ("qqp", "steps"): 200.0}


def test_each_task_has_its_tokens_and_steps_in_each_set() -> None:
    first, advice = amount_lines({("sst",): ALONE, ("sst", "qqp"): BOTH}, TASKS)
    assert first == "SST was trained on 31,200 tokens in 300 steps alone, 10,400 tokens in 100 steps with QQP."
    assert "stages.0.order=max_size_cycle stages.0.sum_losses=true" in advice


@pytest.mark.parametrize(("times", "is_shown"), [(MOST_ALIKE * 1.01, True), (MOST_ALIKE * 0.99, False)])
def test_nothing_is_shown_of_sets_that_train_a_task_alike(times: float, is_shown: bool) -> None:
    alike = {key: ALONE[key] * times if key in ALONE else amount for key, amount in BOTH.items()}
    assert bool(list(amount_lines({("sst",): ALONE, ("sst", "qqp"): alike}, TASKS))) == is_shown


def test_sweeps_without_steps_on_record_have_tokens_alone() -> None:
    first, _ = amount_lines({("sst",): {("sst", "tokens"): 31_200.0}, ("sst", "qqp"): BOTH}, TASKS)
    assert first.startswith("SST was trained on 31,200 tokens alone, 10,400 tokens in 100 steps with QQP")


def test_answer_of_sets_of_tasks_has_it_below_the_effects() -> None:
    effects = replace(sweep_of([value(0.0, None), value(0.45, 0.014)]), has_different_tasks=True)
    of_task = replace(effects.columns["overall"], task="sst")
    amounts = {("sst",): ALONE, ("sst", "qqp"): BOTH}
    found = answer_question(replace(effects, columns={"sst": of_task}, amounts=amounts), ()).found
    assert [place for place, line in enumerate(found) if "31,200 tokens" in line] == [2]
    assert found[1].startswith("SST: Take")
