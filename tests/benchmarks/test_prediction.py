"""Both sides of the prediction benchmark give the same predictions, and ratios are of paired seconds."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.prediction import PLAIN, SST, build_loop, export_new, own_contender, report, torch_logits


def test_plain_loop_and_project_predict_the_same(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> None:
    model = export_new(str(tiny_encoder_folder), "fp32", tmp_path / "model")
    loop = build_loop(model, 4, torch_logits(model, "fp32"))
    for number, predict in enumerate((loop, own_contender(model))):
        predict(tiny_folder / SST.file_name("dev"), tmp_path / f"{number}.csv")
    first, second = (pd.read_csv(tmp_path / f"{number}.csv") for number in range(2))
    assert len(first) == 13
    pd.testing.assert_frame_equal(first, second, atol=2e-6, rtol=0)


def test_report_is_of_paired_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, predictions, probabilities in ((PLAIN, [0, 1], [0.2, 0.8]), ("other", [0, 0], [0.2, 0.45])):
        table = pd.DataFrame({"id": ["a", "b"], "prediction": predictions, "probability_1": probabilities})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    report({PLAIN: [1.0, 2.0, 4.0], "other": [0.5, 1.0, 1.0]}, tmp_path)
    plain, other = capsys.readouterr().out.splitlines()
    assert plain.split() == ["plain", "loop", "1", "rows/s"]
    assert " ".join(other.split()) == "other 2 rows/s 2.00 times as fast 2.00 to 4.00 0.35000 50.0%"
