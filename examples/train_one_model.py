"""Trains one model on the demonstration, without Ray, in half a minute: `python examples/train_one_model.py`."""

from pathlib import Path

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.demo.corpus import demo_folder
from mtlib.demo.overrides import demo_overrides
from mtlib.model.encoder import load_encoder
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport


def print_report(report: EpochReport) -> bool:
    """Prints the dev scores of an epoch; False would end the training."""
    print(f"epoch {report.epoch}: overall dev score {report.overall:.3f}")
    return True


cache = Path.home() / "multitask-sweeps" / ".cache"
data, encoder_folder = demo_folder(cache)  # any folder of data, and a hub name such as bert-base-uncased
stage = StageConfig(tasks=("sst", "qqp", "sts"), order="sampled_round_robin", epochs=3, steps_per_epoch=60)
config = TrialConfig(stages=(stage,))
config = config.override(demo_overrides(config))  # a pretrained encoder needs none
encoder = load_encoder(str(encoder_folder))
corpus = tokenize(read_data(config, data), encoder.tokenizer, cache)
train(config, corpus, encoder, on_epoch=print_report)
