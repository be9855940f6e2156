"""Each section has the blocks of what there is; what cannot be made says why, and the rest is there."""

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import plotly.graph_objects as go
import pytest

from mtlib.tasks import TASKS
from results.page.content import Block, Fold, Text, TextTable, unfolded
from results.page.sections import (
    SECTIONS,
    PageInputs,
    held_out_table,
    make_section,
    ranking_block,
    ranking_title,
    sliced_tables,
    sweep_sections,
    value_blocks,
)
from results.records.selection import SliceScore
from results.records.tables import write_trials
from results.records.trials import write_sweep
from results.stats.trial_scores import TOTAL
from results.sweep import Sweep, load_sweep
from tests.results.figures.conftest import panels_of
from tests.results.page.recorded_sweep import (
    figure_named,
    recorded,
    shown_names,
    sweep_info,
    write_recorded_sweep,
)
from tests.results.page.test_predictions import selection_of_two
from tests.results.records.changed_epochs import change_predictions, lose
from tests.results.records.test_selection import build_selection
from tests.results.selection.test_report import record_groups

TERMS = {("sst", "smart_penalty"): 0.1, ("sst", "gradient_norm"): 1.0, ("qqp", "gradient_norm"): 1.5}


def names_of(sweep: Sweep, **changes: object) -> dict[str, list[str]]:
    """The names of figures and tables by section."""
    inputs = replace(PageInputs(sweep=sweep, selection=None), **changes)  # type: ignore[arg-type]
    return {section.name: shown_names(section.blocks) for section in sweep_sections(inputs)}


def blocks_of(name: str, sweep: Sweep, **changes: object) -> list[Block]:
    """The blocks of one section; empty if the page has no such section."""
    section = make_section(replace(PageInputs(sweep=sweep, selection=None), **changes), name)  # type: ignore[arg-type]
    return [] if section is None else list(section.blocks)


def texts_of(blocks: list[Block]) -> str:
    return "\n".join(line for block in unfolded(blocks) if isinstance(block, Text) for line in block.paragraphs)


def test_whole_sweep_has_all_sections(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", terms=TERMS)
    names = names_of(sweep, selection=selection_of_two(sweep))
    assert list(names) == list(SECTIONS)
    assert names["effects"] == ["effects-smart-weight", "scores-smart-weight", "Ranking"]
    assert names["training"] == ["learning-curves", "losses", "penalties"]
    assert {"confusion-sst", "reliability-qqp", "scatter-sts"} <= set(names["predictions"])
    assert names["ensembles"] == ["selection-methods", "Members of the ensembles"]
    assert names["published"][0] == "BERT and Beyond, table 6"
    assert names["reproduce"] == ["Made with", "Data"]


def test_answer_is_one_bold_line_with_its_intervals_above_everything_else(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", terms=TERMS)
    question, lead, figure, *others, conditions = blocks_of("answer", sweep)
    assert isinstance(question, Text)
    assert isinstance(lead, Text)
    assert [question.is_lead, lead.is_lead, len(lead.paragraphs)] == [False, True, 1]
    assert shown_names([figure]) == ["answer-smart-weight"]
    assert isinstance(conditions, Fold)
    shown = [line for block in (question, lead, *others, *conditions.blocks) for line in block.paragraphs]  # type: ignore[union-attr]
    assert shown == sweep.answer(), "in the order of the command line"


def test_sweep_that_has_just_begun_says_so_everywhere(tmp_path: Path) -> None:
    write_sweep(tmp_path, sweep_info("mine"))
    write_trials(tmp_path, [recorded(0, 0.3, 0, status="queued", best={}, best_epoch={}, epochs=0)], tuple(TASKS))
    sections = {s.name: list(s.blocks) for s in sweep_sections(PageInputs(sweep=load_sweep(tmp_path), selection=None))}
    assert "Not known yet" in texts_of(sections["answer"])
    for name in ("training", "predictions"):
        assert texts_of(sections[name]) == "There is nothing to show yet."
    assert "No ensembles were chosen yet" in texts_of(sections["ensembles"])


def test_one_trial_has_a_page(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.3,), num_replicates=1, num_epochs=1)
    names = names_of(sweep)
    assert names["effects"] == ["Ranking"]
    assert "learning-curves" in names["training"]
    assert "confusion-sst" in names["predictions"]
    assert ranking_block(sweep).marked == frozenset(), "what may be the best is not known"


def test_lost_predictions_leave_the_rest(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", terms=TERMS)
    names = shown_names(blocks_of("training", sweep))
    change_predictions(tmp_path / "mine", "sst", lose)
    lost = replace(sweep)  # without what was read before
    assert "Ranking could not be made: " in texts_of(blocks_of("effects", lost))
    predictions, training = blocks_of("predictions", lost), blocks_of("training", lost)
    assert {"confusion-qqp", "scatter-sts"} <= set(shown_names(predictions))
    assert "confusion-sst" not in shown_names(predictions)
    (reason,) = texts_of(predictions).splitlines()
    assert reason.startswith("SST could not be made: ")
    assert "predictions of trial" in reason
    assert shown_names(training) == names
    assert "The best configurations have no colours: " in texts_of(training)


def test_lost_curves_are_not_a_sweep_that_has_just_begun(tmp_path: Path) -> None:
    write_recorded_sweep(tmp_path / "mine")
    shutil.rmtree(tmp_path / "mine" / "trials")
    text = texts_of(blocks_of("predictions", load_sweep(tmp_path / "mine")))
    assert text == f"There is nothing to show: the curves of {tmp_path}/mine are missing."


def test_records_of_another_version_leave_the_rest(recorded_sweep: Sweep) -> None:
    old = replace(recorded_sweep, info={"name": "old"})
    assert shown_names(blocks_of("training", old))[0] == "learning-curves"
    records = tuple(replace(record, config='{"of": "another version"}') for record in recorded_sweep.records)
    names = shown_names(blocks_of("published", replace(recorded_sweep, records=records)))
    assert "BERT and Beyond, table 6" in names
    assert "What differs" not in names  # it has the configuration's batch sizes


def test_one_bad_figure_leaves_the_others(recorded_sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Mock(side_effect=ValueError("broken\nsecond line"))
    monkeypatch.setattr("results.figures.effects.forest_plots", broken)
    monkeypatch.setattr("results.figures.curves.losses", broken)
    effects, training = (blocks_of(name, recorded_sweep) for name in ("effects", "training"))
    assert shown_names(effects) == ["scores-smart-weight", "Ranking"]
    assert texts_of(effects).splitlines()[-1] == "Effects could not be made: broken."
    assert texts_of(training) == "Losses could not be made: broken."
    assert "learning-curves" in shown_names(training)


def test_selection_that_cannot_be_read_or_shown_says_so(recorded_sweep: Sweep) -> None:
    text = texts_of(blocks_of("ensembles", recorded_sweep, selection_error="it is damaged"))
    assert "it is damaged." in text
    assert "No ensembles were chosen yet" not in text
    selection = selection_of_two(recorded_sweep)
    own = replace(selection, tasks={"qqp": selection.tasks["qqp"]})
    blocks = blocks_of("predictions", recorded_sweep, selection=own)
    assert "SST: what was selected is not shown: the selection does not have this task" in texts_of(blocks)
    shown = {task: len(panels_of(figure_named(f"confusion-{task}", blocks))) for task in ("sst", "qqp")}
    assert shown == {"sst": 1, "qqp": 2}


def test_ranking_shows_metrics_and_of_many_keys_the_scores_first(recorded_sweep: Sweep) -> None:
    few = ranking_block(recorded_sweep)
    assert few.columns[:3] == ["configuration", "smart.weight", "SST dev"]
    assert few.caption == "Metrics: SST accuracy; QQP accuracy; STS Pearson's correlation."
    assert 0 in few.marked
    many = {f"key.{number}": number for number in range(4)}
    changed = tuple(replace(record, params={**record.params, **many}) for record in recorded_sweep.records)
    table = ranking_block(replace(recorded_sweep, records=changed))
    assert table.columns[:2] == ["configuration", "SST dev"]
    assert table.columns[-5:] == ["smart.weight", *many]
    assert all(len(row) == len(table.columns) for row in table.rows)
    tasks = {**TASKS, "sts": replace(TASKS["sts"], metric="rmse")}
    titles = [ranking_title(column, tasks) for column in (("sts", "dev"), ("sst", "train"), TOTAL)]
    assert titles == ["STS dev, lower is better", "SST train", "overall"]


def test_figures_by_value_that_are_left_out_are_mentioned(recorded_sweep: Sweep) -> None:
    effects = recorded_sweep.estimated_effects
    assert texts_of(list(value_blocks(recorded_sweep, effects))) == ""
    keys = [replace(effects.keys[0], name=f"key{number}") for number in range(3)]
    figure, text = value_blocks(recorded_sweep, replace(effects, keys=[*effects.keys, *keys]))
    assert isinstance(figure, go.Figure)
    assert texts_of([text]).startswith("Of 4 searched keys, the 1 whose effect on overall could be estimated")


def test_errors_are_folded_with_their_texts_where_these_are_read(recorded_sweep: Sweep) -> None:
    assert not [block for block in blocks_of("predictions", recorded_sweep) if isinstance(block, Fold)]
    read = blocks_of("predictions", recorded_sweep, read_texts=lambda _, ids: [("text",)] * len(ids))
    folds = [block for block in read if isinstance(block, Fold)]
    assert [fold.title for fold in folds] == [f"Errors on {task.title} with their texts" for task in TASKS.values()]
    assert shown_names(folds[0].blocks) == ["SST: errors with their texts"]


def test_held_out_scores_stand_beside_the_expected_ones() -> None:
    table = held_out_table(build_selection())
    assert table.rows[0] == ["SST", "2024-05-02T10:00:00.000+00:00", "0.500", "0.400 to 0.600", "0.550"]
    assert len(table.rows) == 2


def test_slices_have_tables_of_the_first_row_and_of_what_was_chosen(recorded_sweep: Sweep) -> None:
    assert "Slices" not in names_of(recorded_sweep)["effects"]
    record_groups(Path(str(recorded_sweep.path)), "sst", 60, ["news"] * 25 + ["blog"] * 35)
    sweep, selection = load_sweep(recorded_sweep.path), build_selection()
    assert "Slices" in names_of(sweep)["effects"]
    (table,) = [own for own in blocks_of("effects", sweep) if isinstance(own, TextTable) and own.title == "Slices"]
    assert [row[:5] for row in table.rows] == [
        ["SST", "source", "blog", "35", "35"],
        ["SST", "source", "news", "25", "25"],
    ]
    own = SliceScore(column="source", value="news", num_examples=25, num_groups=25, score=0.5, interval=(0.3, 0.7))
    chosen = replace(selection.tasks["sst"], slices=(own,))
    (shown,) = sliced_tables(selection, "Expected", {"sst": chosen.slices, "qqp": ()})
    assert shown.rows == [["SST", "source", "news", "25", "25", "0.500", "0.300 to 0.700"]]
    assert list(sliced_tables(selection, "Expected", {"sst": ()})) == []
