"""The report of a selection: tables and sentences that fit 100 columns and match the numbers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.data.tables import Table
from mtlib.metrics.table import METRICS
from mtlib.tasks import TASKS
from results.ensembles.candidates import read_pool
from results.ensembles.methods import TITLES
from results.records.examples import write_groups
from results.records.selection import (
    HeldOutScores,
    Member,
    MethodScore,
    RecordedSearch,
    Selection,
    SliceScore,
    TaskSelection,
    read_selection,
)
from results.selection.report import (
    brief_verdict,
    describe_pool,
    one_model_sentences,
    optimism_sentences,
    render_held_out_scores,
    render_selection,
    selection_legend,
    shared_text_sentences,
    verdict,
)
from results.selector import main
from search_spaces.domain import NUM_STARTUP_TRIALS
from tests.results.conftest import ROWS
from tests.results.records.test_selection import build_selection as recorded_selection
from tests.results.selection.scored_sweep import build_sweep

WIDEST = 100


def build_score(name: str = "topk", **changes: Any) -> MethodScore:
    """Significantly better than the best single model, and 0.01 too high on dev."""
    values = {
        "in_sample": 0.56,
        "cross_fitted": 0.55,
        "standard_error": 0.021,
        "interval": (0.512, 0.588),
        "num_models": 2,
        "lead": 0.03,
        "lead_interval": (0.01, 0.05),
    }
    return MethodScore(**{"name": name, **values, **changes})


SINGLE = build_score("single", cross_fitted=0.52, in_sample=0.53, num_models=1, lead=0.0, lead_interval=(0.0, 0.0))


def build_task(num_members: int = 2, sweep: str = "/sweeps/mine", **changes: Any) -> TaskSelection:
    """The mean of the best k, named by the user."""
    members = [
        Member(sweep=sweep, trial=f"{number:04d}-r0", epoch=number + 1, weight=1 / num_members)
        for number in range(num_members)
    ]
    values: dict[str, Any] = {
        "method": "topk",
        "members": tuple(members),
        "methods": (SINGLE, build_score()),
        "num_examples": 1101,
        "num_candidates": 1200,
        "num_trials": 400,
    }
    return TaskSelection(**{**values, **changes})


def build_selection(*tasks: TaskSelection, **changes: Any) -> Selection:
    return recorded_selection(tasks=dict(zip(TASKS, tasks, strict=False)), evaluations=(), **changes)


def sentences(**changes: Any) -> list[str]:
    return list(verdict(TASKS["sst"], build_task(**changes)))


def test_table_has_a_row_for_every_method_and_marks_the_selected_one() -> None:
    automatic = build_score("auto", cross_fitted=0.541, standard_error=0.0229, lead=0.021, lead_interval=(-0.01, 0.05))
    others = [build_score(name, lead=-0.004, lead_interval=(-0.02, 0.01)) for name in ("weights", "greedy")]
    task = build_task(methods=(SINGLE, build_score(), *others), automatic=automatic)
    lines = render_selection(build_selection(task))
    table = lines[2 : lines.index("", 2)]
    assert " ".join(table[0].split()) == "method models on dev cross-fitted 95 % interval over single"
    rows = [" ".join(line.split()) for line in table[2:]]
    assert rows == [
        "best single model 1 0.530 0.520 ±.021 0.512 to 0.588",
        "mean of the best k < 2 0.560 0.550 ±.021 0.512 to 0.588 +0.030",
        "weighted mean 2 0.560 0.550 ±.021 0.512 to 0.588 -0.004 n.s.",
        "greedy, with replacement 2 0.560 0.550 ±.021 0.512 to 0.588 -0.004 n.s.",
        "choosing among them 2 0.560 0.541 ±.023 0.512 to 0.588 +0.021 n.s.",
    ]


@pytest.mark.parametrize("metric", [name for name, metric in METRICS.items() if "regression" in metric.kinds])
def test_the_error_in_the_labels_unit_stands_beside_a_metric_without_scale(metric: str) -> None:
    task = replace(TASKS["sts"], metric=metric)
    single, topk = replace(SINGLE, mean_absolute_error=1.26), build_score(mean_absolute_error=1.24)
    text = " ".join(verdict(task, build_task(methods=(single, topk))))
    assert ("1.24" in text, "1.26" in text) == (metric != "rmse", metric != "rmse")


def searched(**sweeps: tuple[str, str, int]) -> Selection:
    """A selection from sweeps with these searches."""
    found = {
        name: RecordedSearch(search=search, scheduler=scheduler, num_configurations=count)
        for name, (search, scheduler, count) in sweeps.items()
    }
    return build_selection(build_task(), searches=found)


def test_searches_and_schedulers_that_used_dev_scores_are_named_once() -> None:
    selection = searched(a=("tpe", "none", 40), b=("tpe", "asha", 12), c=("random", "asha", 30), d=("grid", "none", 9))
    (sentence,) = optimism_sentences(selection)
    assert sentence.startswith("TPE proposed trials and ASHA stopped trials")
    assert list(selection_legend(selection))[-1] == sentence
    assert " ".join(brief_verdict(selection)).endswith(sentence)
    (sentence,) = optimism_sentences(searched(a=("gp", "none", 40), b=("gp", "none", 10), c=("tpe", "none", 10)))
    assert sentence.startswith("A Gaussian process proposed trials by scores")
    (sentence,) = optimism_sentences(searched(a=("gp", "none", 40), b=("tpe", "asha", 40)))
    assert sentence.startswith("A Gaussian process and TPE proposed trials and ASHA stopped trials by scores")
    (sentence,) = optimism_sentences(searched(a=("random", "asha", 40)))
    assert sentence.startswith("ASHA stopped trials")


def test_a_search_of_as_few_configurations_as_are_drawn_at_random_has_proposed_none() -> None:
    assert optimism_sentences(searched(a=("tpe", "none", NUM_STARTUP_TRIALS))) == []
    assert optimism_sentences(searched(a=("tpe", "none", NUM_STARTUP_TRIALS + 1))) != []
    assert optimism_sentences(searched(a=("grid", "none", 40), b=("random", "none", 40))) == []


BASE = build_score("base", cross_fitted=0.5, num_models=1, base_lead=0.0, base_lead_interval=(0.0, 0.0))


@pytest.mark.parametrize(
    ("bounds", "shown"),
    [
        ((0.01, 0.09), "+.050 over the base configuration's best one (+.010 to +.090)."),
        ((-0.09, -0.01), "-.050 over the base configuration's best one (-.090 to -.010)."),
        ((-0.01, 0.11), "+.050 over the base configuration's best one (-.010 to +.110: not significant)."),
    ],
)
def test_selection_is_compared_with_the_base_configuration(bounds: tuple[float, float], shown: str) -> None:
    lead = sum(bounds) / 2
    score = build_score(base_lead=lead, base_lead_interval=bounds)
    lines = list(verdict(TASKS["sst"], build_task(methods=(BASE, SINGLE, score))))
    assert lines[-1] == f"That is +.030 over picking one model by dev (+.010 to +.050) and {shown}"
    alone = replace(SINGLE, in_sample=BASE.in_sample + 0.01, base_lead=lead, base_lead_interval=bounds)
    lines = list(verdict(TASKS["sst"], build_task(1, method="single", methods=(BASE, alone))))
    assert lines[-1] == f"That is {shown}"


def test_of_an_error_the_lead_is_the_difference_of_the_error() -> None:
    """An error that is lower by .03 is better."""
    task = replace(TASKS["sts"], metric="rmse")
    assert "-.030 over picking one model by dev (-.050 to -.010)" in " ".join(verdict(task, build_task()))


def test_a_mark_means_one_thing() -> None:
    """The ranking, which may be printed above, has stars for what may be the best."""
    text = "\n".join(render_selection(build_selection(build_task(methods=(BASE, SINGLE, build_score())))))
    assert "*" not in text
    assert "n.s., not significant" in " ".join(text.split())


def test_model_that_is_the_best_one_of_the_base_is_not_compared_with_itself() -> None:
    alone = replace(SINGLE, in_sample=BASE.in_sample, base_lead=-0.002, base_lead_interval=(-0.03, 0.03))
    lines = list(verdict(TASKS["sst"], build_task(1, method="single", methods=(BASE, alone))))
    assert lines[-1] == "It is the best one of the base configuration."


def test_no_line_is_longer_than_100_columns() -> None:
    wide = {"in_sample": -0.987, "cross_fitted": -0.876, "interval": (-0.912, -0.845), "num_models": 12_345}
    methods = tuple(build_score(name, **wide) for name in TITLES if name != "auto")
    task = build_task(
        12_345,
        sweep="/sweeps/" + 12 * "a-long-name-",
        methods=methods,
        method="greedy",
        automatic=build_score("auto", **wide),
        num_candidates=12_345_678,
        num_trials=1_234_567,
        num_examples=1_234_567,
    )
    selection = build_selection(task, task, task)
    lines = render_selection(selection)
    assert max(len(line) for line in lines if "a-long-name" not in line) <= WIDEST
    assert 12 * "a-long-name-" in "\n".join(lines)


@pytest.mark.parametrize(("behind", "is_named"), [(0.020, True), (0.022, False)])
def test_one_model_that_serves_all_tasks_as_well_is_named(behind: float, is_named: bool) -> None:
    def chosen(lead: float) -> TaskSelection:
        return build_task(2, methods=(build_score("one_model", cross_fitted=0.55 - lead), SINGLE, build_score()))

    selection = replace(build_selection(chosen(0.0)), tasks={"sst": chosen(0.0), "sts": chosen(behind)})
    assert ("--method one_model" in " ".join(one_model_sentences(selection))) == is_named
    assert not one_model_sentences(build_selection(chosen(0.0))), "of one task"
    assert not one_model_sentences(build_selection(build_task(2))), "no model was scored on all tasks"


def record_groups(sweep: Path, task: str, num_texts: int, cells: Sequence[str] = ()) -> None:
    """Records dev rows in groups: row r has one of so many texts; `cells` are those of a column `source`, if given."""
    ids = [f"{task}-dev-{row}" for row in range(ROWS[task])]
    texts = ([f"text {row % num_texts}" for row in range(len(ids))],)
    table = Table(
        task=task,
        split="dev",
        path=Path("x.csv"),
        ids=ids[::-1],
        places=ids,
        texts=(texts[0][::-1],),
        labels=np.zeros(len(ids), dtype=np.float32),
        num_own_rows=len(ids),
        skipped=(),
        slices={"source": list(cells)[::-1]} if cells else {},
    )
    write_groups(sweep, {task: table})


def test_groups_come_from_the_sweep_that_has_recorded_them(tmp_path: Path) -> None:
    first, second = (build_sweep(tmp_path / name, 0.2, 0.5) for name in ("first", "second"))
    assert read_pool([first, second], TASKS["sst"]).text_groups is None
    record_groups(second, "sst", 30)
    pool = read_pool([first, second], TASKS["sst"])
    assert pool.text_groups is not None
    assert [len(set(pool.groups[row::30])) for row in range(30)] == [1] * 30
    assert len(set(pool.groups)) == 30


def test_selector_scores_by_groups_and_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = build_sweep(tmp_path / "mine", 0.2, 1.0, 0.6)
    record_groups(sweep, "sst", 30)
    record_groups(sweep, "qqp", 80)
    assert main([str(sweep), "--method", "topk"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "60 dev examples in 30 groups of connected texts" in text
    assert "80 dev examples, accuracy" in text
    assert "Dev examples that texts or groups connect are drawn" in text
    assert "STS: the record of dev examples that share texts is missing" in text
    found = read_selection(sweep).tasks
    assert (found["sst"].num_groups, found["sst"].largest_group) == (30, 2)
    assert (found["qqp"].num_groups, found["sts"].num_groups) == (80, None)


def test_selector_expects_a_score_on_each_slice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = build_sweep(tmp_path / "mine", 0.2, 1.0, 0.6)
    record_groups(sweep, "sst", 60, ["news"] * 25 + ["blog"] * 35)
    assert main([str(sweep), "--method", "topk"]) == 0
    text = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    found = read_selection(sweep).tasks["sst"]
    assert [(own.value, own.num_examples, own.num_groups) for own in found.slices] == [
        ("blog", 35, 35),
        ("news", 25, 25),
    ]
    assert sum(own.score * own.num_examples for own in found.slices if own.score) / 60 == pytest.approx(
        found.score.cross_fitted
    )
    for own in found.slices:
        assert own.score is not None
        assert own.interval[0] < own.score < own.interval[1]
        assert any(line.startswith(f"SST source {own.value} {own.num_examples} ") for line in text)
    assert read_selection(sweep).tasks["qqp"].slices == ()


def test_held_out_scores_are_followed_by_those_on_slices() -> None:
    own = SliceScore(column="source", value="news", num_examples=40, num_groups=40, score=0.25, interval=(0.1, 0.4))
    found = replace(SCORES, slices={"sst": (own,)})
    lines = [
        " ".join(line.split()) for line in render_held_out_scores(build_selection(build_task(), build_task()), found, 0)
    ]
    assert "SST source news 40 40 0.250 0.100 to 0.400" in lines
    assert lines.index("SST source news 40 40 0.250 0.100 to 0.400") > 3


SCORES = HeldOutScores(
    time="2024-05-02T10:00:00.000+00:00",
    scores={"sst": 0.5, "qqp": 0.75},
    intervals={"sst": (0.412, 0.588), "qqp": (0.7, 0.8)},
    num_examples={"sst": 120, "qqp": 28_000},
)


def test_evaluation_shows_scores_and_expected_scores() -> None:
    automatic = build_score("auto", cross_fitted=0.541)
    lines = render_held_out_scores(build_selection(build_task(automatic=automatic), build_task()), SCORES, 0)
    rows = [" ".join(line.split()) for line in lines]
    assert rows[0] == "task examples held out 95 % interval expected on dev"
    assert rows[2:4] == [
        "SST 120 0.500 0.412 to 0.588 0.541 0.560",
        "QQP 28,000 0.750 0.700 to 0.800 0.550 0.560",
    ]


@pytest.mark.parametrize(
    ("lead", "bounds", "is_significant"),
    [(0.03, (0.001, 0.06), True), (0.03, (0.0, 0.06), False), (-0.03, (-0.06, -0.001), True)],
)
def test_a_lead_whose_interval_contains_0_is_not_significant(
    lead: float, bounds: tuple[float, float], is_significant: bool
) -> None:
    automatic = build_score("auto", cross_fitted=0.541, interval=(0.5, 0.58), lead=lead, lead_interval=bounds)
    text = " ".join(sentences(automatic=automatic))
    assert "0.541 (0.500 to 0.580)" in text
    assert f"{lead:+.3f}".replace("0.", ".") + " over picking one model by dev" in text
    assert ("not significant" in text) is not is_significant
    assert "2 models" in text


def test_a_single_model_is_compared_with_nothing() -> None:
    text = " ".join(sentences(num_members=1, method="single"))
    assert "0.520 (0.512 to 0.588)" in text
    assert "over picking one model" not in text


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({}, "the record of dev examples that share texts is missing"),
        ({"num_groups": 100}, None),
        ({"num_groups": 60, "largest_group": 9}, "as whole groups"),
        (
            {"num_groups": 5, "largest_group": 20},
            "SST: too few groups of connected examples, or one too large: no diff",
        ),
        ({"num_groups": 15, "largest_group": 86}, "SST: too few groups of connected examples, or one too large: no"),
    ],
)
def test_shared_texts_are_named_with_what_they_change(groups: dict[str, Any], words: str | None) -> None:
    chosen = build_task(num_examples=100, **groups)
    lines = list(shared_text_sentences(build_selection(chosen)))
    assert (len(lines) == 0) if words is None else (words in lines[0])
    count = groups.get("num_groups", 100)
    assert (f"in {count} groups of connected texts" in describe_pool(TASKS["sst"], chosen)) == (count < 100)
