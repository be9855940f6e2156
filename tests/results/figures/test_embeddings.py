"""Principal components against a singular value decomposition; labels in their groups."""

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.figures.draw import is_empty
from results.figures.embeddings import Embedded, embeddings, label_groups
from results.figures.predictions import MAX_POINTS
from tests.results.figures.conftest import caption_of, panel_of, panels_of


def embedded(task: Task, labels: list[float], vectors: np.ndarray | None = None) -> Embedded:
    given = np.random.default_rng(0).normal(size=(len(labels), 4)) if vectors is None else vectors
    return Embedded(task=task, ids=[f"id{row}" for row in range(len(labels))], labels=np.array(labels), vectors=given)


def test_components_are_those_of_a_singular_value_decomposition() -> None:
    vectors = np.random.default_rng(1).normal(size=(30, 6)) * [3, 2, 1, 1, 1, 1]
    figure = embeddings({"qqp": embedded(TASKS["qqp"], [0, 1] * 15, vectors)}, "0001-r0")
    _, sizes, directions = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    panel = panel_of(figure)
    ones = panel.named("QQP 1")
    expected = ((vectors - vectors.mean(axis=0)) @ directions[:2].T)[1::2]
    np.testing.assert_allclose(np.abs([ones["x"], ones["y"]]), np.abs(expected.T))
    shares = sizes**2 / np.sum(sizes**2)
    assert panel.x["title"]["text"] == f"first component, {shares[0]:.0%} of the variance"
    assert panel.y["title"]["text"] == f"second component, {shares[1]:.0%}"
    assert ones["text"][1] == "id3<br>label 1"
    assert "0001-r0" in caption_of(figure)


def test_components_are_the_same_each_time() -> None:
    vectors = np.random.default_rng(2).normal(size=(1100, 200))  # for so many rows PCA may draw random numbers
    first, second = (embeddings({"qqp": embedded(TASKS["qqp"], [0, 1] * 550, vectors)}, "") for _ in range(2))
    assert first.to_json() == second.to_json()


@pytest.mark.parametrize(
    ("label", "group"), [(0.0, 0), (0.99, 0), (1.0, 1), (3.99, 3), (4.0, 4), (5.0, 4), (-0.1, 0), (5.1, 4)]
)
def test_labels_of_a_regression_are_in_equal_parts_of_the_range(label: float, group: int) -> None:
    groups, names = label_groups(embedded(TASKS["sts"], [label]))
    assert groups.tolist() == [group]
    assert names == ["0 to 1", "1 to 2", "2 to 3", "3 to 4", "4 to 5"]


def test_class_that_does_not_occur_has_no_points() -> None:
    panel = panel_of(embeddings({"sst": embedded(TASKS["sst"], [0, 0, 4])}, ""))
    assert {trace["meta"]: len(trace["x"]) for trace in panel.traces} == {"SST 0": 2, "SST 4": 1}


def test_tasks_without_two_components_are_left_out() -> None:
    found = {
        "sst": embedded(TASKS["sst"], [1]),
        "qqp": embedded(TASKS["qqp"], [0, 1], np.array([[0.0], [1.0]])),
        "sts": embedded(TASKS["sts"], [0.0, 5.0]),
    }
    assert [panel.title for panel in panels_of(embeddings(found, ""))] == ["STS"]
    assert is_empty(embeddings({"sst": found["sst"]}, ""))
    assert is_empty(embeddings({}, ""))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_equal_embeddings_explain_nothing() -> None:
    panel = panel_of(embeddings({"sst": embedded(TASKS["sst"], [0, 1], np.ones((2, 3)))}, ""))
    assert panel.x["title"]["text"] == "first component, 0% of the variance"


def test_of_many_examples_a_sample_is_drawn() -> None:
    figure = embeddings({"qqp": embedded(TASKS["qqp"], [0, 1] * MAX_POINTS)}, "")
    sizes = [len(trace["x"]) for trace in panel_of(figure).traces]
    assert sum(sizes) == MAX_POINTS
    assert min(sizes) > 0
    assert caption_of(figure).endswith(" Of QQP's 6,000 examples 3,000 are drawn, chosen at random.")
