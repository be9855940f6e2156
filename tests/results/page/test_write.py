"""A page is written with its images and tables."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from results.page.write import (
    PAGE_FILE,
    build_page,
    inputs_of,
    subtitle_of,
    write_figures,
    write_page,
    write_sweep_page,
)
from results.records.selection import SELECTION_FILE, write_selection
from results.sweep import Sweep
from tests.one_line_error import one_line_error
from tests.results.page.recorded_sweep import write_recorded_sweep
from tests.results.page.test_predictions import selection_of_two


def test_page_is_written_into_the_sweeps_folder(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    assert write_sweep_page(sweep) == f"{tmp_path}/mine/{PAGE_FILE}"
    text = (tmp_path / "mine" / PAGE_FILE).read_text()
    assert "<title>Sweep mine</title>" in text
    assert "6 of 6 trials ended, started 2024-05-01; encoder tiny; the generated demonstration corpus" in text
    assert "no evidence about real text" in text


def test_real_data_are_named_without_a_warning(recorded_sweep: Sweep) -> None:
    sweep = replace(
        recorded_sweep, info={**recorded_sweep.info, "options": {"data": "/data"}}, records=recorded_sweep.records[:1]
    )
    subtitle = subtitle_of(sweep)
    assert subtitle.startswith("1 of 1 trial ended, started")
    assert subtitle.endswith("; /data: 8,544 sst train rows")


def test_limit_that_stopped_a_race_is_beside_the_number_of_its_trials(recorded_sweep: Sweep) -> None:
    options = {"search": "grid", "replicates": 20, "until_decided": 0.0}
    race = {"options": options, "num_configurations": 3, "race": [], "stopped_by": "--max-steps 900"}
    sweep = replace(recorded_sweep, info={**recorded_sweep.info, **race})
    assert subtitle_of(sweep).startswith("6 of at most 60 trials ended, stopped by --max-steps 900, started")


def test_page_is_written_behind_a_uri(recorded_sweep: Sweep, tmp_path: Path) -> None:
    page = build_page(inputs_of(recorded_sweep))
    assert write_page(f"file://{tmp_path}/copy/", page) == f"file://{tmp_path}/copy/{PAGE_FILE}"
    assert (tmp_path / "copy" / PAGE_FILE).is_file()


def test_selection_is_shown_if_there_is_one_that_can_be_read(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    assert inputs_of(sweep).selection is None
    write_selection(sweep.path, selection_of_two(sweep))
    assert inputs_of(sweep).selection == selection_of_two(sweep)
    (tmp_path / "mine" / SELECTION_FILE).write_text("{")
    damaged = inputs_of(sweep)
    assert damaged.selection is None
    assert SELECTION_FILE in damaged.selection_error


def test_each_figure_becomes_a_png_and_an_svg(
    recorded_sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr("plotly.io.write_images", lambda _, paths, **__: written.extend(path.name for path in paths))
    page = build_page(inputs_of(recorded_sweep))
    count = write_figures(page, tmp_path / "images")
    names = [figure.layout.meta["name"] for figure in page.figures]
    assert written == [f"{name}.{kind}" for name in names for kind in ("png", "svg")]
    assert count == len(written)


@pytest.mark.parametrize(
    ("message", "end"),
    [
        ("Kaleido requires Google Chrome to be installed.\nmore", ": Kaleido requires Google Chrome to be installed"),
        ("Image export requires the Kaleido package,\nwhich", ": Image export requires the Kaleido package"),
    ],
)
def test_missing_browser_is_one_line(
    message: str, end: str, recorded_sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plotly.io.write_images", Mock(side_effect=RuntimeError(message)))
    page = build_page(inputs_of(recorded_sweep))
    assert one_line_error(write_figures, page, tmp_path).endswith(f"and a Chrome or Chromium{end}")


@pytest.mark.slow
def test_kaleido_draws_figures_as_png_and_svg(recorded_sweep: Sweep, tmp_path: Path) -> None:
    """Needs a Chrome or Chromium."""
    page = build_page(inputs_of(recorded_sweep))
    assert write_figures(page, tmp_path) == 2 * len(page.figures)
    assert "Learning curves" in next(tmp_path.rglob("learning-curves.svg")).read_text()
    assert next(tmp_path.rglob("learning-curves.png")).read_bytes().startswith(b"\x89PNG")
