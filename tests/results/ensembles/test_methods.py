"""Own selection methods join the table; no method is further off the labels of a regression than one model."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.metrics.table import METRICS
from mtlib.runtime.method_file import MethodFile, permitted
from mtlib.tasks import TASKS
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import ensemble_outputs
from results.ensembles.methods import (
    SELECTION_METHODS,
    methods_for,
    with_own,
)
from results.ensembles.selection_method import Settings
from results.selection.select_ensemble import automatic_method
from tests.one_line_error import one_line_error
from tests.results.ensembles.simulated_pools import pool_of

METHODS = {**methods_for(), "auto": automatic_method(methods_for())}


def grades(metric: str) -> Pool:
    """Grades from 0 to 10 with a mean near 1.7, and eight trials that estimate them, some of which learned too little.

    Their errors are correlated, and their predictions vary less than the grades, by factors of 0.6 to 1.1 of what least
    squares would give. Of four others, which rank well, two are shifted by 4, and two vary three times as much.
    """
    random, num_rows = np.random.default_rng(0), 200
    labels = np.clip(random.exponential(1.7, num_rows), 0, 10)
    common, outputs = random.normal(size=num_rows), []
    for shift, scale in [(0, 1)] * 8 + [(4, 1), (0, 3)] * 2:
        noise = 0.9 if (shift, scale) != (0, 1) else random.uniform(0.8, 2.0)
        learned = scale * random.uniform(0.6, 1.1)
        seen = labels + noise * (common + random.normal(size=num_rows)) / np.sqrt(2)
        slope = learned * labels.var() / (labels.var() + noise**2)
        mean = labels.mean() + random.normal(0, 0.1) + shift
        outputs.append(np.clip(mean + slope * (seen - labels.mean()), 0, 10))
    return pool_of(replace(TASKS["sts"], label_range=(0, 10), metric=metric), np.stack(outputs), labels)


@pytest.mark.parametrize("metric", [name for name, metric in METRICS.items() if "regression" in metric.kinds])
@pytest.mark.parametrize("name", METHODS)
def test_no_method_is_further_off_the_labels_of_a_regression_than_the_best_single_model(name: str, metric: str) -> None:
    pool = grades(metric)
    rows, settings = np.arange(len(pool.labels)), Settings(bags=1, num_steps=10)
    chosen, single = (
        ensemble_outputs(pool, METHODS[one](pool, rows, settings), rows)[:, 0] - pool.labels for one in (name, "single")
    )
    noise, noise_of_size = single.std() / np.sqrt(len(rows)), np.abs(single).std() / np.sqrt(len(rows))
    assert abs(chosen.mean()) <= abs(single.mean()) + 2 * noise
    assert np.abs(chosen).mean() <= np.abs(single).mean() + 2 * noise_of_size


@pytest.mark.parametrize(
    ("requested", "found"),
    [("greedy", ["single", "greedy"]), ("single", ["single"]), ("one_model", ["single"])],
)
def test_requested_method_is_listed_with_the_best_single(requested: str, found: list[str]) -> None:
    assert methods_for(requested) == {name: SELECTION_METHODS[name].choose for name in found}


OWN = """\
from results.ensembles.best_k import choose_single
from results.ensembles.selection_method import SelectionMethod

SELECTION_METHODS = {"mine": SelectionMethod(title="mine", choose=choose_single, before="topk")}
"""


def own(source: str = OWN, name: str = "mine.py") -> MethodFile:
    return permitted(name, source)


def test_own_method_stands_before_the_one_that_it_is_simpler_than() -> None:
    names = list(with_own([own()]))
    assert names.index("mine") + 1 == names.index("topk")
    assert list(with_own([own(OWN.replace(', before="topk"', ""))])) == [*SELECTION_METHODS, "mine"]


def test_given_file_takes_the_place_of_a_sweeps() -> None:
    newer = own(OWN.replace('title="mine"', 'title="newer"'))
    assert with_own([newer], [own()])["mine"].title == "newer"
    assert with_own([], [own(), own(OWN + "# a comment\n")])["mine"].title == "mine"
    assert "must not be that of another method" in one_line_error(with_own, [], [own(), newer])


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (OWN.replace('"mine":', '"greedy":'), "must not be that of another method, got 'greedy'"),
        (OWN.replace('before="topk"', 'before="top"'), "did you mean 'topk'"),
        ("SELECTION_METHODS = {'a': 3}\n", "must be a SelectionMethod, got 3"),
    ],
)
def test_mistake_in_a_file_is_one_line(source: str, error: str) -> None:
    assert error in one_line_error(with_own, [own(source)])
