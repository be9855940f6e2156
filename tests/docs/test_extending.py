"""Each file of docs/extending.md works as it stands: it is read, trains, and its name is listed."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from mtlib.checkpoints.model_card import CardFacts, card_text
from mtlib.config.methods import read_methods
from mtlib.config.trial import TrialConfig, with_methods
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.storage import is_file, join_location, open_folder
from mtlib.tasks import TASKS, overall_score
from results.records.selection import read_selection
from results.records.tables import read_trials
from results.selector import main as select_main
from results.stats.covariance import covariance_over_examples
from results.stats.resampling import bootstrap_scores, score_examples
from tests.one_line_error import one_line_error, one_line_exit
from tests.recorded_details import run_whole
from tests.results.selection.scored_sweep import build_sweep
from tests.scripts import ROOT, run_process

BLOCK = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
FILES = dict(BLOCK.findall((ROOT / "docs" / "extending.md").read_text()))
CASES: dict[str, dict[str, Any]] = {
    "poly1": {
        "choose": {"tasks.sst.loss": "poly1"},
        "wrong": {"tasks.sst.loss": "poly"},
        "title": "poly-1 loss (`poly1`)",
    },
    "logit_adjusted": {
        "choose": {"tasks.sst.loss": "logit_adjusted"},
        "wrong": {"tasks.sst.loss": "logit_adjust"},
        "title": "logit-adjusted cross entropy (`logit_adjusted`)",
    },
    "multisample": {
        "choose": {"tasks.sst.head": "multisample"},
        "wrong": {"tasks.sst.head": "multisampel"},
        "title": "(`multisample`), multisample_masks 8",
    },
    "temperature": {
        "choose": {"stages.0.sum_losses": False, "stages.0.order": "temperature"},
        "wrong": {"stages.0.order": "temperatur"},
        "title": "temperature sampling: tasks",
    },
    "rdrop": {
        "choose": {"rdrop.weight": 1.0, "rdrop.tasks": ["sst", "qqp", "sts"]},
        "wrong": {"rdrp.weight": 1.0},
        "title": "R-Drop (`rdrop`): weight 1.0",
    },
    "equal_length": {
        "choose": {"gradients": "equal_length"},
        "wrong": {"gradients": "equal"},
        "title": "gradients of equal length (`equal_length`)",
    },
}
"""By file: what chooses the method, a wrong name, and what the model card shows."""
PLAN = {"tasks": ["sst", "qqp", "sts"], "order": "max_size_cycle", "sum_losses": True, "steps_per_epoch": 2}
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of the page."""

    def write(name: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(FILES[path.name])
        return path

    return write


@pytest.fixture
def plain(tiny_config: TrialConfig) -> TrialConfig:
    return tiny_config.override({"stages": [PLAN], "smart.weight": 0})


@pytest.mark.parametrize("name", CASES)
def test_each_file_trains_a_step_and_is_listed(
    name: str, write: Write, plain: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    case = CASES[name]
    config = with_methods(plain, read_methods([write(name)]))
    chosen = config.override(case["choose"])

    reports = run_whole(chosen, tiny_corpus, tiny_encoder).reports.values()
    points = [point for report in reports for point in report.points]
    losses = [point.value for point in points if point.metric == "loss"]
    assert losses
    assert all(map(math.isfinite, losses))
    assert ("rdrop" in {point.metric for point in points}) == (name == "rdrop")
    known = one_line_error(config.override, case["wrong"]).partition(", got ")[0]
    assert name in re.split(r"[, .]+", known)
    facts = CardFacts(
        title="", best="overall", epoch=1, steps=2, scores={}, data_fingerprint="", num_rows={}, versions={}
    )
    assert case["title"] in card_text(chosen, "", {}, facts)


def test_metric_is_that_of_scikit_learn_with_a_standard_error(write: Write) -> None:
    methods = read_methods([write("kappa")])
    task = replace(TASKS["sst"], metric="kappa", metric_file=methods.own_metrics["kappa"])
    stream = np.random.default_rng(0)
    labels = stream.integers(0, 5, 200).astype(np.float64)
    values = np.where(stream.random(200) < 0.5, labels, stream.integers(0, 5, 200))[None].astype(np.float64)
    score, kappa = float(score_examples(task, values, labels)[0]), float(cohen_kappa_score(labels, values[0]))
    assert score == pytest.approx(kappa)
    assert overall_score({task.name: score}, {task.name: task}) == pytest.approx((1 + kappa) / 2)
    resampled = float(bootstrap_scores(task, values, labels, num_resamples=400).std())
    influence = task.metric_entry.influences(values, labels)
    assert resampled == pytest.approx(float(np.sqrt(covariance_over_examples(influence)[0, 0])), rel=0.15)
    with pytest.raises(ValueError, match=r"did you mean 'kappa'\?"):
        replace(task, metric="kapa")


def test_selection_method_is_compared_and_can_be_chosen(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep, path = build_sweep(tmp_path / "mine", 0.5, 0.6), str(write("harmonic"))
    words = [str(sweep), "--task", "sst", "--methods", path]
    assert select_main(words) == 0
    names = [score.name for score in read_selection(sweep).tasks["sst"].methods]
    assert names == ["single", "topk", "harmonic", "weights", "greedy"]
    assert select_main([*words, "--method", "harmonic"]) == 0
    assert "Chosen for SST: best models, weighted by rank, 2 models." in capsys.readouterr().out
    assert [member.weight for member in read_selection(sweep).tasks["sst"].members] == pytest.approx([2 / 3, 1 / 3])
    error = one_line_exit(select_main, capsys, *words, "--method", "harmonik")
    assert "unknown method 'harmonik'; did you mean 'harmonic'?" in error


@pytest.mark.slow
def test_sweep_of_own_methods_is_resumed_without_their_files(
    write: Write, tmp_path: Path, tiny_folder: Path, tiny_encoder_folder: Path, bucket: str
) -> None:
    """All files at once, on Ray, in a bucket: workers, the selection at the end and the resumed sweep have the text
    alone, which the first command has given them."""
    (tmp_path / "data").mkdir()
    for path in tiny_folder.glob("ids-sst-*.csv"):
        (tmp_path / "data" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "data" / "tasks.toml").write_text(
        '[tasks.tone]\nkind = "classes"\nnum_labels = 5\ntexts = ["sentence"]\nlabel = "sentiment"\n'
        'train = "ids-sst-train.csv"\ndev = "ids-sst-dev.csv"\nmetric = "kappa"\n'
    )
    paths = [write(name.removesuffix(".py")) for name in FILES]
    own = {"rdrop.weight": 0.5, "rdrop.tasks": "tone", "tasks.tone.poly1_epsilon": 1, "encoder.max_length": 32}
    own |= {"tasks.tone.head": "multisample"}
    words = ["--methods", *map(str, paths), "--vary", "tasks.tone.loss=cross_entropy,poly1"]
    words += [
        "--set",
        *(f"{key}={value}" for key, value in own.items()),
        "stages.0.epochs=1",
        "stages.0.steps_per_epoch=2",
    ]
    words += ["--data", str(tmp_path / "data"), "--encoder", str(tiny_encoder_folder), "--name", "own"]
    place = ["--storage", bucket]
    first = run_process([str(ROOT / "sweeps" / "run.py"), *words, *place], tmp_path)
    assert first.code == 0, first.stderr
    sweep = join_location(bucket, "own")
    assert first.stdout.count("--trust-methods") >= 3, "commands to type next"
    assert is_file(open_folder(sweep), "report.html")
    assert "harmonic" in {score.name for score in read_selection(sweep).tasks["tone"].methods}
    for path in paths:
        path.unlink()
    again = ["--resume", "own", "--replicates", "2", *place]
    refused = run_process([str(ROOT / "sweeps" / "run.py"), *again], tmp_path)
    assert (refused.code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    again.append("--trust-methods")
    second = run_process([str(ROOT / "sweeps" / "run.py"), *again], tmp_path)
    assert second.code == 0, second.stderr
    records = read_trials(sweep)
    assert [record.status for record in records] == ["complete"] * 4
    assert {json.loads(record.config)["tasks"]["tone"]["loss"] for record in records} == {"cross_entropy", "poly1"}
