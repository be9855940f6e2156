"""The search space of students: the best configuration of a sweep, taught by its ensembles in a few ways."""

from collections.abc import Sequence
from typing import Any

from mtlib.config.trial import TrialConfig
from results.inference.distillation.teacher import Taught
from search_spaces.space import SearchSpace

STUDENTS = "students"
"""The name of the space."""
STUDENT_KEY = "student"
"""The searched name."""
LABELS_ALONE = "labels"
"""The student that nobody taught."""


def student_space(config: TrialConfig, taught: Sequence[Taught]) -> SearchSpace:
    """Returns the students: taught by the ensembles alone, by these and the labels, and, as a yardstick,
    by the labels alone.

    Where there are further texts, which have no labels, no student learns from labels alone.

    Args:
        config: of the sweep's best trial.
        taught: the files of the ensembles' logits.
    """
    sources = {key: value for file in taught for key, value in file.settings.items()}
    tasks = list(dict.fromkeys(file.task.name for file in taught))
    # The files lack the rows that were held out, and seed and replicate are the students' own.
    own = {"data.hold_out": 0, "seed": 0, "replicate": 0}
    term = {"distillation.tasks": tasks, "distillation.weight": 1.0, "distillation.label_weight": 1.0}
    base = config.override({**sources, **own, **term})
    kinds: dict[str, dict[str, Any]] = {
        "teacher": {"distillation.label_weight": 0.0},
        "both": {"distillation.label_weight": 1.0},
    }
    if all(file.role == "train" for file in taught):
        kinds[LABELS_ALONE] = {"distillation.weight": 0.0}
    question = "Is one student, taught by the ensembles, as good as they are?"
    return SearchSpace(name=STUDENTS, question=question, base=base, grid={STUDENT_KEY: kinds})
