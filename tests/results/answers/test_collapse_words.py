"""How many trainings of a configuration collapsed, and what repeating them costs, in the answer and the ranking."""

from pathlib import Path

from results.answers.collapse_words import collapse_sentences
from tests.results.health.test_outputs import make_constant
from tests.results.page.recorded_sweep import with_records, write_recorded_sweep


def test_answer_says_how_many_trainings_collapsed_and_their_price(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=4)
    assert list(collapse_sentences(sweep.finished, sweep.scores)) == []
    for trial in ("0001-r1", "0002-r0", "0002-r3"):
        make_constant(sweep, trial)
    again = with_records(tmp_path / "mine", sweep.records)
    first, second = collapse_sentences(again.finished, again.scores)
    assert first.startswith("2 of 4 trainings of 0002 (smart.weight 1) collapsed, ")
    assert first.endswith("Who repeats collapsed trainings trains 2 times for each that learned.")
    assert second.startswith("1 of 4 trainings of 0001 (smart.weight 0.3) collapsed, ")
    assert second.endswith("trains 1.33 times for each that learned.")
    assert [line for line in again.answer() if "collapsed" in line] == [first, second]
    ranking = again.ranking().set_index("number")["collapsed"]
    assert ranking.to_dict() == {0: "", 1: "0001-r1", 2: "0002-r0 0002-r3"}


def test_the_three_configurations_that_collapse_most_have_a_sentence(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.0, 0.2, 0.4, 0.6, 0.8))
    for number in range(5):
        make_constant(sweep, f"{number:04d}-r0")
    again = with_records(tmp_path / "mine", sweep.records)
    assert len(list(collapse_sentences(again.finished, again.scores))) == 3


def test_a_single_configuration_has_a_sentence_and_no_price_where_all_its_trainings_collapse(tmp_path: Path) -> None:
    """One of SST and QQP each."""
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.0,))
    for trial, tasks in (("0000-r0", ("qqp",)), ("0000-r1", ("sts",))):
        make_constant(sweep, trial, tasks)
    again = with_records(tmp_path / "mine", sweep.records)
    (line,) = [line for line in again.answer() if "collapsed" in line]
    assert line.startswith("2 of 2 trainings of 0000 ")
    assert "repeats" not in line
