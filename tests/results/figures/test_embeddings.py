"""Principal components against a singular value decomposition; labels in their groups."""

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.figures.chart import Chart, Series
from results.figures.embeddings import Embedded, embeddings_chart, label_groups
from results.figures.predictions import MAX_POINTS


def embedded(task: Task, labels: list[float], vectors: np.ndarray | None = None) -> Embedded:
    given = np.random.default_rng(0).normal(size=(len(labels), 4)) if vectors is None else vectors
    return Embedded(task=task, ids=[f"id{row}" for row in range(len(labels))], labels=np.array(labels), vectors=given)


def points_of(chart: Chart) -> dict[str, int]:
    """The number of points by name."""
    return {mark.name: len(mark.x) for panel in chart.panels for mark in panel.marks if isinstance(mark, Series)}


def test_components_are_those_of_a_singular_value_decomposition() -> None:
    vectors = np.random.default_rng(1).normal(size=(30, 6)) * [3, 2, 1, 1, 1, 1]
    chart = embeddings_chart({"qqp": embedded(TASKS["qqp"], [0, 1] * 15, vectors)}, "0001-r0")
    centred = vectors - vectors.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    found = chart.frame[["first", "second"]].to_numpy()
    np.testing.assert_allclose(np.abs(found), np.abs(centred @ directions[:2].T))
    shares = sizes**2 / np.sum(sizes**2)
    assert chart.panels[0].x.title == f"first component, {shares[0]:.0%} of the variance"
    assert chart.panels[0].y.title == f"second component, {shares[1]:.0%}"
    ones = [mark for mark in chart.panels[0].marks if isinstance(mark, Series)][1]
    assert (ones.name, list(ones.x)) == ("QQP 1", found[1::2, 0].tolist())
    assert ones.hover[1] == "id3\nlabel 1"
    assert "0001-r0" in chart.caption


def test_components_are_the_same_each_time() -> None:
    vectors = np.random.default_rng(2).normal(size=(1100, 200))  # for so many rows PCA may draw random numbers
    charts = [embeddings_chart({"qqp": embedded(TASKS["qqp"], [0, 1] * 550, vectors)}, "") for _ in range(2)]
    first, second = (chart.frame[["first", "second"]].to_numpy() for chart in charts)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("label", "group"), [(0.0, 0), (0.99, 0), (1.0, 1), (3.99, 3), (4.0, 4), (5.0, 4), (-0.1, 0), (5.1, 4)]
)
def test_labels_of_a_regression_are_in_equal_parts_of_the_range(label: float, group: int) -> None:
    groups, names = label_groups(embedded(TASKS["sts"], [label]))
    assert groups.tolist() == [group]
    assert names == ["0 to 1", "1 to 2", "2 to 3", "3 to 4", "4 to 5"]


def test_class_that_does_not_occur_has_no_points() -> None:
    chart = embeddings_chart({"sst": embedded(TASKS["sst"], [0, 0, 4])}, "")
    assert points_of(chart) == {"SST 0": 2, "SST 1": 0, "SST 2": 0, "SST 3": 0, "SST 4": 1}


def test_tasks_without_two_components_are_left_out() -> None:
    found = {
        "sst": embedded(TASKS["sst"], [1]),
        "qqp": embedded(TASKS["qqp"], [0, 1], np.array([[0.0], [1.0]])),
        "sts": embedded(TASKS["sts"], [0.0, 5.0]),
    }
    chart = embeddings_chart(found, "")
    assert [panel.title for panel in chart.panels] == ["STS"]
    assert set(chart.frame["task"]) == {"sts"}
    assert embeddings_chart({"sst": found["sst"]}, "").is_empty
    assert embeddings_chart({}, "").is_empty


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_equal_embeddings_explain_nothing() -> None:
    (panel,) = embeddings_chart({"sst": embedded(TASKS["sst"], [0, 1], np.ones((2, 3)))}, "").panels
    assert panel.x.title == "first component, 0% of the variance"


def test_of_many_examples_a_sample_is_drawn_and_all_are_in_the_frame() -> None:
    many = {"qqp": embedded(TASKS["qqp"], [0, 1] * MAX_POINTS), "sst": embedded(TASKS["sst"], [0, 1, 2])}
    chart = embeddings_chart(many, "")
    drawn = points_of(chart)
    assert drawn["QQP 0"] + drawn["QQP 1"] == MAX_POINTS
    assert min(drawn["QQP 0"], drawn["QQP 1"]) > 0
    assert len(chart.frame) == 2 * MAX_POINTS + 3
    assert chart.caption.endswith(" Of QQP's 6,000 examples 3,000 are drawn, chosen at random.")
    first = next(mark for mark in chart.panels[0].marks if isinstance(mark, Series))
    by_id = chart.frame[chart.frame["task"] == "qqp"].set_index("id")["first"]
    assert [by_id[text.split("\n")[0]] for text in first.hover] == list(first.x)
