"""A trial loaded for training: its configuration with everything that its result depends on, and its cuts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mtlib.checkpoints.initial_weights import load_start
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.effective_settings import length_counts
from mtlib.stages.keys import Cut, Origin, list_cuts
from mtlib.stages.plan import plan_stages
from mtlib.train import origin_of


@dataclass(frozen=True, kw_only=True)
class LoadedTrial:
    """A trial with everything that its result depends on."""

    config: TrialConfig
    encoder: PretrainedEncoder
    corpus: Corpus
    start: Mapping[str, Tensor] | None
    """The weights of `encoder.start_from`."""
    origin: Origin
    cuts: tuple[Cut, ...]
    """First to last."""

    @property
    def can_be_extended(self) -> bool:
        """Whether a trial with more epochs could continue from this one's end."""
        return not length_counts(self.config, len(self.config.stages) - 1)

    def end_of(self, stage: int) -> Cut:
        """Returns the cut at a stage's end."""
        return next(cut for cut in self.cuts if cut.stage == stage and cut.is_end)


def load_trial(
    config: TrialConfig,
    encoder: PretrainedEncoder,
    corpus: Corpus,
    start: Mapping[str, Tensor] | None,
    environment: Mapping[str, Any],
) -> LoadedTrial:
    """Loads a trial; `environment` is that of `describe_environment`. Raises ValueError as `load_start`."""
    started = {} if start is None else load_start(config.encoder, MultiTaskModel(config, encoder), start)
    origin = origin_of(corpus, encoder, started, environment)
    plan = plan_stages(config, {name: corpus[name, "train"].num_rows for name in config.train_sets})
    cuts = tuple(list_cuts(config, plan, origin))
    return LoadedTrial(config=config, encoder=encoder, corpus=corpus, start=start, origin=origin, cuts=cuts)
