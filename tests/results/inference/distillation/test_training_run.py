"""A sweep of students begins, goes on, or is left as it is; one that learned something else is not taken for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.inference.distillation import training_run
from results.inference.distillation.training_run import TrainingRun
from results.records.tables import write_trials
from results.records.trials import write_sweep
from search_spaces.space import SearchSpace, grid_configs
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record

SOURCE = {"task": "sst", "role": "augment"}


@pytest.fixture
def space(tiny_config: TrialConfig) -> SearchSpace:
    return SearchSpace(name="students", question="Which?", base=tiny_config, grid={"encoder.max_length": (8, 16)})


def begin(place: Path, space: SearchSpace, *statuses: str) -> None:
    """Writes a sweep of the space whose trials have these statuses."""
    pairs = zip(statuses, grid_configs(space), strict=False)
    records = [build_record(number, status=own, config=config.to_json()) for number, (own, config) in enumerate(pairs)]
    place.mkdir()
    write_sweep(place, {"name": place.name})
    write_trials(place, records, tuple(TASKS))


@pytest.mark.parametrize(
    ("statuses", "is_dry_run", "wanted"),
    [
        ((), False, ["--space", "{file}", "--storage", "{storage}", "--name", "mine", "--data", "d"]),
        ((), True, ["--space", "{file}", "--storage", "{storage}", "--name", "mine", "--data", "d", "--dry-run"]),
        (("complete", "queued"), False, ["--resume", "{storage}/mine"]),
        (("complete", "queued"), True, None),
        (("complete", "failed"), False, None),
    ],
)
def test_what_is_left_is_trained(
    statuses: tuple[str, ...],
    is_dry_run: bool,
    wanted: list[str] | None,
    space: SearchSpace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, commands = tmp_path / "mine", list[list[str]]()
    if statuses:
        begin(place, space, *statuses)

    def run(command: list[str]) -> int:
        commands.append(command[2:])
        if not statuses and not is_dry_run:
            begin(place, space, "complete", "complete")
        return 0

    monkeypatch.setattr(training_run, "run_child", run)
    own = TrainingRun(folder=tmp_path / "teachers", new_words=("--data", "d"), is_dry_run=is_dry_run)
    code, is_whole = own.train(space, str(place), space.base.encoder.name)
    assert (code, is_whole) == (0, not is_dry_run and "queued" not in statuses)
    names = {"file": tmp_path / "teachers/mine.py", "storage": tmp_path}
    assert commands == ([] if wanted is None else [[word.format(**names) for word in wanted]])


def test_a_sweep_that_learned_something_else_is_refused(space: SearchSpace, tmp_path: Path) -> None:
    begin(tmp_path / "mine", space, "complete")
    own = TrainingRun(folder=tmp_path / "teachers", new_words=(), is_dry_run=False)
    place = str(tmp_path / "mine")
    other = {"data.sources.more": {**SOURCE, "path": "more.csv"}}
    further = SearchSpace(name="students", question="Which?", base=space.base.override(other), grid=space.grid)
    assert "got a difference in more.csv" in one_line_error(own.train, further, place, space.base.encoder.name)
    assert "must start from the same encoder" in one_line_error(own.train, space, place, "another")


def test_files_of_a_sweep_that_teaches_may_have_moved(space: SearchSpace, tmp_path: Path) -> None:
    sources = ({**SOURCE, "path": f"/{name}/teachers/more-1f.csv"} for name in ("first", "renamed"))
    before, now = (replace(space, base=space.base.override({"data.sources.more": own})) for own in sources)
    begin(tmp_path / "mine", before, "complete")
    own = TrainingRun(folder=tmp_path / "teachers", new_words=(), is_dry_run=False)
    assert own.train(now, str(tmp_path / "mine"), space.base.encoder.name) == (0, True)
