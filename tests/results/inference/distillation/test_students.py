"""The space of students: what teaches them, around the configuration of the teacher's best trial."""

from pathlib import Path

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.inference.distillation.students import LABELS_ALONE, STUDENT_KEY, student_space
from results.inference.distillation.teacher import Taught
from search_spaces.space import grid_configs
from search_spaces.space_json import space_from_json, space_to_json


@pytest.mark.parametrize("has_further", [False, True])
def test_students_learn_from_teachers_labels_or_both(
    has_further: bool, tiny_config: TrialConfig, tmp_path: Path
) -> None:
    own = [Taught(task=TASKS[name], path=tmp_path / f"{name}.parquet", role="train") for name in TASKS]
    more = [Taught(task=TASKS["sst"], path=tmp_path / "more.parquet", role="augment")] * has_further
    config = tiny_config.override({"data.hold_out": 0.1, "seed": 4, "replicate": 2})
    space = student_space(config, [*own, *more])
    students = dict(zip(space.grid[STUDENT_KEY], grid_configs(space), strict=True))
    weights = {name: (own.distillation.weight, own.distillation.label_weight) for name, own in students.items()}
    assert weights == {"teacher": (1, 0), "both": (1, 1), **({} if has_further else {LABELS_ALONE: (0, 1)})}
    assert set(space.base.distillation.tasks) == set(TASKS)
    assert (space.base.data.hold_out, space.base.optimizer) == (0, config.optimizer)
    assert space_from_json(space_to_json(space)).configs == space.configs
