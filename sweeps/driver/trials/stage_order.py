"""Which trial starts next: no two lanes train one stage, and a stage that many trials wait for is trained early."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from mtlib.config.trial import TrialConfig
from mtlib.data.load import find_row_sources
from mtlib.stages.keys import Cut, Origin, list_cuts
from mtlib.stages.plan import plan_stages
from sweeps.driver.trials.table import TrialRow


@dataclass(frozen=True, kw_only=True)
class StageKeys:
    """Keys of the states that a trial passes through; trials of one sweep share a stage where its key is equal."""

    ends: tuple[str, ...]
    """Keys of the ends of all stages, first to last."""
    epochs: tuple[int, ...]
    """Epochs of the trial that are trained at each of these ends."""
    cuts: frozenset[str]
    """Keys of all cuts."""


NOTHING_SHARED = StageKeys(ends=(), epochs=(), cuts=frozenset())
"""The keys of a trial that shares no stage."""


def find_stage_keys(config: TrialConfig, data_folder: Path, num_workers: int) -> StageKeys:
    """Returns the keys of a trial by its configuration alone: nothing is loaded, so they hold for one sweep only."""
    num_rows = dict.fromkeys(config.train_sets, 1)  # how long stages are does not matter here
    cuts = find_cuts(config, data_folder, num_workers, num_rows)
    ends = [cut for cut in cuts if cut.is_end]
    return StageKeys(
        ends=tuple(cut.key for cut in ends),
        epochs=tuple(cut.total_epochs for cut in ends),
        cuts=frozenset(key for cut in cuts for key in (cut.key, cut.key_with_best) if key is not None),
    )


def find_cuts(config: TrialConfig, data_folder: Path, num_workers: int, num_rows: Mapping[str, int]) -> list[Cut]:
    """Returns every cut of a trial, first to last, with keys that hold for one sweep only.

    `num_rows` are the train rows of every set that some stage draws from.
    """
    started = f"{config.encoder.start_from} {config.encoder.start_epoch} {config.encoder.start_heads}"
    origin = Origin(
        encoder=config.encoder.name,
        started={"encoder": started},
        data={key: repr(parts) for key, parts in find_row_sources(config, data_folder).items()},
        environment={"num_workers": num_workers},
    )
    return list_cuts(config, plan_stages(config, num_rows), origin)


def choose_startable(
    trials: Sequence[StageKeys], running: Iterable[StageKeys] = (), done: Set[str] = frozenset()
) -> int | None:
    """Returns the index of the trial to start now; None if each of them needs a stage that is being trained.

    A trial starts before those that continue from its end. Next come those with the fewest stages left to train,
    then those that train the stage that most trials wait for, then the order as given.

    Args:
        trials: those that may start.
        running: those that run, from their suggestion to their end.
        done: keys of stages that are in the store or that no trial need wait for.
    """

    def missing(trial: StageKeys) -> list[str]:
        return [key for key in trial.ends if key not in done]

    busy = {key for trial in running for key in missing(trial)}
    startable = [index for index, trial in enumerate(trials) if not trial.cuts & busy]
    num_waiting = Counter(key for trial in trials for key in missing(trial)[:1])
    by_last_end = {trial.ends[-1]: trial for trial in trials if trial.ends}

    def rank(index: int) -> tuple[bool, int, int, int]:
        trial = trials[index]
        left = missing(trial)
        waiting = num_waiting[left[0]] if left else 0
        ended = [by_last_end[key] for key in trial.cuts & by_last_end.keys()]
        is_longer = any(trial.ends[-1] not in other.cuts for other in ended)  # it continues another one
        return is_longer, len(left) - len(trial.ends), -waiting, index

    return min(startable, key=rank, default=None)


def done_ends(trial: StageKeys, row: TrialRow) -> list[str]:
    """Returns the keys of the stages that a trial has behind it: those that ended before its starting point, and those
    that it has finished, even if they could not be kept."""
    ends = enumerate(zip(trial.ends, trial.epochs, strict=True))
    return [key for index, (key, end) in ends if end <= row.past_epochs or index < row.num_stages]
