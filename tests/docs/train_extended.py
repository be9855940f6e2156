"""Trains a step with each method that docs/extending.md adds; runs in a copy of the packages, prints JSON.

Arguments: a data folder, an encoder's folder, a file with the cases. For each case it prints the message for a wrong
name, whether the JSON is read back unchanged, which settings change the stage key, the model card, and the curves.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import mtlib
from mtlib.checkpoints.model_card import CardFacts, card_text
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from mtlib.stages.keys import list_cuts
from mtlib.train import prepare_run, train
from mtlib.training.epoch_report import EpochReport

FACTS: Mapping[str, Any] = {"title": "tiny", "best": "overall", "epoch": 1, "steps": 2, "scores": {}}


def describe(case: Mapping[str, Any], corpus: Corpus, encoder: PretrainedEncoder) -> dict[str, Any]:
    """The results of one case."""
    plain = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts"), sum_losses=True, steps_per_epoch=2),))
    plain = plain.override({"encoder.name": encoder.name, "encoder.max_length": 32})
    chosen = plain.override(case["choose"])
    reports: list[EpochReport] = []

    def note(report: EpochReport) -> bool:
        reports.append(report)
        return True

    train(chosen, corpus, encoder, on_epoch=note)
    facts = CardFacts(**FACTS, data_fingerprint="", num_rows={}, versions={})
    return {
        "error": override_error(plain, case["wrong"]),
        "is_read_back": TrialConfig.from_json(chosen.to_json()) == chosen,
        "key_changes_when_chosen": key_of(chosen, corpus, encoder)
        != key_of(chosen.override(case["vary"]), corpus, encoder),
        "key_changes_otherwise": key_of(plain, corpus, encoder)
        != key_of(plain.override(case["vary"]), corpus, encoder),
        "card": card_text(chosen, "", {}, facts),
        "metrics": sorted({point.metric for report in reports for point in report.points}),
        "losses": [point.value for report in reports for point in report.points if point.metric == "loss"],
    }


def override_error(config: TrialConfig, changes: Mapping[str, Any]) -> str:
    """The error of an override that is refused; empty where it is not."""
    try:
        config.override(changes)
    except ValueError as error:
        return str(error)
    return ""


def key_of(config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder) -> str:
    """The key of a configuration's last stage."""
    run = prepare_run(config, corpus, encoder, torch.device("cpu"), lambda objective: objective, None)
    return list_cuts(config, run.plan, run.origin)[-1].key


def main(data: str, encoder_folder: str, cases: str) -> None:
    assert Path(mtlib.__file__).is_relative_to(Path.cwd()), f"the packages must be the copy's, got {mtlib.__file__}"
    torch.set_num_threads(1)
    encoder = load_encoder(encoder_folder)
    tables = read_data(TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),)), Path(data))
    corpus = tokenize(tables, encoder.tokenizer, Path.cwd() / "cache")
    found = {name: describe(case, corpus, encoder) for name, case in json.loads(Path(cases).read_text()).items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
