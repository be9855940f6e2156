"""The command that predicts users' text: its output, and one line for any mistake.

Long, as sweeps and bundles are tested through the same command and text.
"""

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from mtlib.config.schema import to_dict
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS, TaskFiles
from results import predict
from results.inference.models import ModelSource
from results.inference.predictor import Predictor, load_predictor
from results.predict import main
from results.records.files import write_json
from results.records.selection import SELECTION_FILE, Selection, read_selection, write_selection
from tests.one_line_error import one_line_exit
from tests.results.inference.bundle.bundled_sweep import make_bundle
from tests.results.inference.trained_sweep import FIRST, SECOND, recorded_logits, select_pairs
from tests.scripts import ROOT, run_process, run_script

TEXTS = ["a film", 'the "good" dog sleeps', "red", "very dull cat runs"]
Capture = pytest.CaptureFixture[str]


def run(*arguments: object) -> None:
    assert main([*map(str, arguments), "--device", "cpu"]) == 0


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    pd.DataFrame({"id": [f"r{row}" for row in range(4)], "sentence": TEXTS}).to_csv(path, index=False)
    return path


def test_dev_is_predicted_as_recorded(trained_folder: Path, tiny_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    output, file = tmp_path / "new" / "predictions.csv", tiny_folder / TASKS["qqp"].file_name("dev")
    run(trained_folder, "--task", "qqp", "--input", file, "--output", output)
    frame = pd.read_csv(output)
    assert list(frame["id"]) == [f"qqpdev{row}" for row in range(13)]
    first, second = (recorded_logits(trained_folder, trial, "qqp") for trial in (FIRST, SECOND))
    wanted = 0.75 / (1 + np.exp(-first)) + 0.25 / (1 + np.exp(-second))
    assert np.abs(frame["probability_1"] - wanted[:, 0]).max() <= 1e-5
    assert list(frame["prediction"]) == list((frame["probability_1"] > 0.5).astype(int))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"{file.name}: 13 rows predicted in ")
    assert [path.name for path in output.parent.iterdir()] == ["predictions.csv"]


@pytest.mark.parametrize("is_old", [False, True])
def test_copied_or_renamed_sweep_predicts_with_its_own_weights(
    trained_folder: Path, reviews: Path, tmp_path: Path, capsys: Capture, is_old: bool
) -> None:
    """Also with a selection of an older version, which names the sweep by its path."""
    first = Path(shutil.copytree(trained_folder, tmp_path / "first"))
    selection = select_pairs(first)
    if is_old:
        write_json(open_folder(first), SELECTION_FILE, to_dict(selection))
    copy = Path(shutil.copytree(first, tmp_path / "copy"))

    def predicted(folder: Path) -> str:
        capsys.readouterr()
        run(folder, "--task", "sst", "--input", reviews)
        return capsys.readouterr().out

    wanted = predicted(first)
    assert predicted(first.rename(tmp_path / "second")) == wanted
    assert predicted((tmp_path / "second").rename(tmp_path / "third")) == wanted
    first.mkdir()  # another one is where it was
    assert predicted(copy) == wanted
    for path in copy.glob("trials/*/checkpoint/weights/*.safetensors"):
        path.write_bytes(b"damaged")
    message = one_line_exit(main, capsys, copy, "--task", "sst", "--input", reviews)
    assert f"{copy}/trials/" in message


def test_every_format_of_the_same_text_is_predicted_equally(
    trained_folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"sentence": TEXTS})
    frame.assign(more=1).to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.rename(columns={"sentence": "review"}).to_json(tmp_path / "b.jsonl", orient="records", lines=True)
    (tmp_path / "a.log").write_text("\n".join(TEXTS))
    outputs = []
    for name, *flags in (
        ("a.tsv", "--output", "-"),
        ("b.jsonl", "--columns", "review"),
        ("a.log", "--format", "lines"),
    ):
        run(trained_folder, "--task", "sst", "--input", tmp_path / name, *flags)
        outputs.append(capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode())))
    run(trained_folder, "--task", "sst", "--input", "-")
    outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 1
    lines = outputs[0].splitlines()
    assert lines[0].startswith("id,prediction,probability_0,")
    assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2", "3"]


def test_columns_of_groups_and_slices_are_taken_through(trained_folder: Path, tmp_path: Path) -> None:
    sweep = Path(shutil.copytree(trained_folder, tmp_path / "sweep"))
    selection = read_selection(sweep)
    files = TaskFiles(train="x.csv", dev=0.1, group_columns=("doc",), slice_columns=("source", "language"))
    tasks = {**selection.definitions, "sst": replace(TASKS["sst"], files=files)}
    write_selection(sweep, replace(selection, definitions=tasks))
    frame = pd.DataFrame({"source": ["web", "tv", "", "web"], "sentence": TEXTS, "doc": ["007", "8", "9", ""]})
    frame.to_csv(tmp_path / "new.csv", index=False)
    frame[["sentence"]].to_csv(tmp_path / "bare.csv", index=False)
    run(sweep, "--task", "sst", "--input", tmp_path / "new.csv", tmp_path / "bare.csv", "--output", tmp_path / "out")
    new, bare = (pd.read_csv(tmp_path / "out" / name, dtype=str) for name in ("new.csv", "bare.csv"))
    assert list(new)[:4] == ["id", "doc", "source", "prediction"]
    assert new["doc"].fillna("").tolist() == ["007", "8", "9", ""]
    assert new.drop(columns=["doc", "source"]).equals(bare)


def test_blank_texts_keep_their_line_and_are_counted(trained_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.txt").write_text("a film\n\n  \nred\n")
    run(trained_folder, "--task", "sst", "--input", tmp_path / "a.txt")
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[2:4] == ["1,,,,,,", "2,,,,,,"]
    assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2", "3"]
    assert printed.err.endswith("; 2 with a blank text without prediction (the first is a.txt:2)\n")
    (tmp_path / "a.csv").write_text("id,sentence\n")
    run(trained_folder, "--task", "sst", "--input", tmp_path / "a.csv")
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_several_files_are_predicted_as_each_alone_by_models_that_are_loaded_once(
    trained_folder: Path, reviews: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a film\n\nred\n")
    for source in (reviews, lines):
        run(trained_folder, "--task", "sst", "--input", source, "--output", tmp_path / "alone" / f"{source.stem}.csv")
    loaded = list[str]()

    def load(selection: Selection, task: str, source: ModelSource) -> Predictor:
        loaded.append(task)
        return load_predictor(selection, task, source)

    monkeypatch.setattr(predict, "load_predictor", load)
    capsys.readouterr()
    run(trained_folder, "--task", "sst", "--input", reviews, lines, "--output", tmp_path / "all")
    run(trained_folder, "--task", "sst", "--input", lines, "--output", f"{tmp_path}/one/")
    assert loaded == ["sst", "sst"]
    notes = capsys.readouterr().err.splitlines()
    assert [note.split(" predicted")[0] for note in notes] == ["reviews.csv: 4 rows", *["lines.txt: 3 rows"] * 2]
    for folder, names in (("all", ["lines.csv", "reviews.csv"]), ("one", ["lines.csv"])):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == names
        for name in names:
            assert (tmp_path / folder / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_inputs_of_a_folder_of_outputs_are_never_overwritten(
    trained_folder: Path, reviews: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "lines.txt").write_text("a film\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "lines.csv").write_text("mine")
    words = [trained_folder, "--task", "sst", "--input", tmp_path / "lines.txt", reviews, "--output"]
    line = one_line_exit(main, capsys, *words, tmp_path / "out")
    assert line == f"--output must be new, or be overwritten with --overwrite, got {tmp_path}/out/lines.csv"
    before = reviews.read_bytes()
    line = one_line_exit(main, capsys, *words, tmp_path, "--overwrite")
    assert line == f"--output must not overwrite what is read, {reviews}, got {reviews}"
    assert reviews.read_bytes() == before
    assert not (tmp_path / "lines.csv").exists()
    run(*words, tmp_path / "out", "--overwrite")
    assert (tmp_path / "out" / "lines.csv").read_text().startswith("id,prediction,")


Name = Callable[[Path], str]


@pytest.mark.parametrize("name", [lambda path: f"{path}/", lambda path: f"{path}/selection.json", Path.as_uri])
def test_selection_can_be_named_in_several_ways(
    name: Name, trained_folder: Path, reviews: Path, capsys: Capture
) -> None:
    run(name(trained_folder), "--task", "sst", "--input", reviews)
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_only_task_need_not_be_named(trained_folder: Path, reviews: Path, tmp_path: Path, capsys: Capture) -> None:
    selection = read_selection(trained_folder)
    write_selection(tmp_path / "one", replace(selection, tasks={"sst": selection.tasks["sst"]}))
    run(tmp_path / "one", "--input", reviews)
    assert len(capsys.readouterr().out.splitlines()) == 5
    line = one_line_exit(main, capsys, trained_folder, "--input", reviews)
    assert "--task must be one of sst, qqp, sts, got none" in line
    line = one_line_exit(main, capsys, tmp_path / "one", "--task", "qqp", "--input", reviews)
    assert "unknown task of the selection 'qqp'; known: sst" in line


WRONG: list[tuple[list[str], str]] = [
    (["--task", "sst"], "--input must name a file, or - for standard input, got none"),
    (["--task", "sst", "--input", "GONE.csv"], "--input must be a readable file, got GONE.csv: No such file"),
    (["--task", "sst", "--input", "a.pdf"], "--input must end in .csv, .tsv"),
    (["--task", "sst", "--input", "reviews.csv", "--output", "a.xls"], "--output must end in .csv, .jsonl"),
    (["--task", "sst", "--input", "reviews.csv", "--columns", "a,b"], "--columns must name 1 for sst, got a,b"),
    (["--task", "sst", "--input", "-", "--columns", "a"], "--columns cannot be combined with plain lines"),
    (
        ["--task", "qqp", "--input", "reviews.csv"],
        "reviews.csv:1: column sentence1 is missing; did you mean 'sentence'? known: sentence, id "
        "(--columns names those of the texts, if they are others)",
    ),
    (
        ["--task", "sst", "--input", "reviews.csv", "other.csv", "--output", "out"],
        "other.csv:1: column sentence is missing; did you mean 'sentences'?",
    ),
    (["--task", "sst", "--input", "reviews.csv", "a/reviews.tsv", "--output", "out"], "before their suffixes, got rev"),
    (["--task", "sst", "--input", "reviews.csv", "a.csv"], "--output must be a folder for several inputs, got -"),
    (["--task", "sst", "--input", "reviews.csv", "-", "--output", "out"], "inputs must be files where --output is"),
    (["--task", "sst", "--input", "reviews.csv", "--encoder", "./no"], "--encoder must be a hub name or a folder that"),
    (["--bundle", "."], "--bundle must be new, or be overwritten with --overwrite, got "),
    (["--bundle", "", "--overwrite"], "a bundle's folder may replace an empty folder, or one that holds bundle.json"),
    (["--bundle", "s3://mine/b"], "--bundle must name a folder on this machine, got s3://mine/b"),
    (["--bundle", "b", "--task", "sts2"], "unknown task of the selection 'sts2'; did you mean 'sts'?"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_use_is_one_line_before_models_are_loaded(
    arguments: list[str],
    message: str,
    trained_folder: Path,
    reviews: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predict, "load_predictor", Mock(side_effect=AssertionError("loaded")))
    monkeypatch.chdir(reviews.parent)
    (reviews.parent / "other.csv").write_text("id,sentences\n1,a film\n")
    assert message in one_line_exit(main, capsys, trained_folder, *arguments)
    assert sorted(path.name for path in reviews.parent.iterdir()) == ["other.csv", "reviews.csv"]


def test_missing_or_damaged_selection_is_one_line(reviews: Path, tmp_path: Path, capsys: Capture) -> None:
    for place, message in (
        (tmp_path / "gone", f"{tmp_path}/gone must hold selection.json (make one with python results/selector.py)"),
        (reviews, f"SELECTION must be a sweep's folder, its selection.json or a URI, got {reviews}"),
        ("nonsense://a/b", "cannot open nonsense://a/b"),
    ):
        assert message in one_line_exit(main, capsys, place, "--task", "sst", "--input", reviews)
    (tmp_path / "selection.json").write_text('{"version": 2')
    assert "selection.json: truncated or damaged: " in one_line_exit(
        main, capsys, tmp_path, "--task", "sst", "--input", reviews
    )


def test_late_error_or_ctrl_c_keeps_the_old_output(
    trained_folder: Path, reviews: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results.inference.predictor.MAX_CHUNK_ROWS", 2)
    (tmp_path / "a.csv").write_text("id,sentence\n" + "r,a film\n" * 7 + "r,a film,more\n")
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / "old.csv"
    output.write_text("old")
    words = [trained_folder, "--task", "sst", "--output", output, "--overwrite", "--input"]
    assert one_line_exit(main, capsys, *words, tmp_path / "a.csv").startswith("a.csv:9: a line must have 2 cells")
    monkeypatch.setattr(predict, "format_rows", Mock(side_effect=KeyboardInterrupt))
    assert main(list(map(str, [*words, reviews]))) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["old.csv"]
    assert output.read_text() == "old"


def test_output_is_replaced_on_request_only_and_is_never_the_input(
    trained_folder: Path, reviews: Path, tmp_path: Path, capsys: Capture
) -> None:
    output, before = tmp_path / "a.jsonl", reviews.read_bytes()
    output.write_text("mine")
    words = [trained_folder, "--task", "sst", "--input", reviews, "--output"]
    line = one_line_exit(main, capsys, *words, output)
    assert line == f"--output must be new, or be overwritten with --overwrite, got {output}"
    assert output.read_text() == "mine"
    run(*words, output, "--overwrite")
    run(*words, tmp_path / "a.csv")
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    pd.testing.assert_frame_equal(pd.DataFrame(lines), pd.read_csv(tmp_path / "a.csv"))
    capsys.readouterr()
    line = one_line_exit(main, capsys, *words, reviews, "--overwrite")
    assert line.startswith("--output must not overwrite what is read, ")
    (tmp_path / "b.csv").mkdir()
    line = one_line_exit(main, capsys, *words, tmp_path / "b.csv", "--overwrite")
    assert line == f"--output must be a file, got {tmp_path}/b.csv, which is none"
    script = [str(ROOT / "results" / "predict.py"), *map(str, words[:-2]), "-", "--format", "csv", "--overwrite"]
    with reviews.open() as stream:
        command = [sys.executable, *script, "--output", str(reviews)]
        done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=False)
    assert (done.returncode, "--output must not overwrite what is read, " in done.stderr) == (2, True)
    assert reviews.read_bytes() == before


READER_STOPS = """
import os, sys, threading
from results.predict import main
read, write = os.pipe()
os.dup2(write, 1)
os.close(write)
threading.Thread(target=lambda: (os.read(read, 14), os.close(read)), daemon=True).start()
sys.exit(main(sys.argv[1:]))
"""
"""A command whose standard output is closed after its first line has been read."""


def test_closed_output_is_no_error_and_predicting_loads_no_ray(trained_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a film\n" * 100)
    words = [str(trained_folder), "--task", "sst", "--input", str(tmp_path / "a.txt"), "--device", "cpu"]
    done = run_process(["-c", READER_STOPS, *words], ROOT)
    assert (done.code, done.stderr) == (0, "")
    assert done.heavy_packages == {"torch", "transformers"}


def test_script_answers_without_torch_or_ray_from_any_folder(tmp_path: Path) -> None:
    text = run_script("results/predict.py", ["--help"], tmp_path)
    assert "python -m sweeps predict ~/multitask-sweeps/NAME --task TASK --input reviews.csv" in text


def test_bundle_predicts_like_the_sweep_without_flags_for_one(
    trained_folder: Path, reviews: Path, tmp_path: Path, capsys: Capture
) -> None:
    bundle, outputs = tmp_path / "bundle", []
    make_bundle(read_selection(trained_folder), trained_folder, bundle)
    for place in (trained_folder, f"{bundle}/", bundle.as_uri()):
        run(place, "--task", "sst", "--input", reviews)
        outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 1
    line = one_line_exit(main, capsys, bundle, "--bundle", tmp_path / "more")
    assert "--bundle SELECTION must be a sweep, not a bundle" in line
    line = one_line_exit(main, capsys, bundle, "--task", "sst", "--input", reviews, "--encoder", "bert")
    assert line.startswith("--encoder cannot be combined with a bundle")
