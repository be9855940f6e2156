"""Every field in turn: equal keys train bit for bit equal results, and inert fields do not change the key."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from mtlib.checkpoints.best_weights import keep_best
from mtlib.checkpoints.state import StateFolder
from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.config.heads import HEADS
from mtlib.config.loss_weightings import LOSS_WEIGHTINGS
from mtlib.config.losses import LOSSES
from mtlib.config.penalties import PENALTIES
from mtlib.config.schema import fields_of, to_dict
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.effective_settings import effective_settings, length_counts
from mtlib.tasks import TASKS
from search_spaces.presets import general
from tests.mtlib.stages.inert_cases import (
    ALONE,
    BASES,
    BEST,
    INERT,
    REACHES,
    REFUSED,
    SAME_START,
    SCORES,
    START,
    Case,
    Changes,
    Table,
)
from tests.mtlib.stages.trained_states import Outcome, Trainer, assert_equal, difference

ALL_BASES = [pytest.param(name, marks=[pytest.mark.slow] * (name != "alone")) for name in BASES]
"""All bases, of which only the plain one is trained in the ordinary run."""


@pytest.fixture(scope="module")
def trainer(further_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    return Trainer(further_folder, tmp_path_factory.mktemp("cache"), tiny_encoder)


@pytest.fixture(scope="module")
def alone(tiny_config: TrialConfig) -> TrialConfig:
    """The configuration of `ALONE`."""
    return tiny_config.override({"smart.tasks": ["sst"], "tasks.sst.scored_train_rows": 3, "evaluation.batch_size": 8})


@pytest.fixture(scope="module")
def start_folders(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Two checkpoint folders of the same weights to start from; best overall and for QQP are different epochs."""
    folder = tmp_path_factory.mktemp("weights")
    own = MultiTaskModel(tiny_config, tiny_encoder).state_dict()
    for name in ("first", "second"):
        states = StateFolder(path=folder / name)
        keep_best(states, 1, {"overall": 1, "qqp": 1}, scaled(own, 2))
        keep_best(states, 2, {"overall": 1, "qqp": 2}, scaled(own, 3))
    return {START: str(folder / "first"), SAME_START: str(folder / "second")}


def scaled(weights: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    return {name: factor * weight for name, weight in weights.items()}


def leaves(tree: Any, path: str = "") -> Iterator[str]:
    """Dotted keys of all fields; a list of plain values is one field."""
    if isinstance(tree, dict):
        entries: Any = tree.items()
    elif isinstance(tree, list) and tree and isinstance(tree[0], dict):
        entries = enumerate(tree)
    else:
        yield path
        return
    for name, value in entries:
        yield from leaves(value, f"{path}.{name}" if path else str(name))


def build(config: TrialConfig, changes: Changes, start_folders: dict[str, str]) -> TrialConfig:
    """A configuration with some changes; placeholders of starting weights become their folders."""
    read = {key: start_folders.get(value, value) if isinstance(value, str) else value for key, value in changes.items()}
    return config.override(read)


def cases_of(table: Table) -> list[tuple[str, Case]]:
    return [(key, found) for key, cases in table.items() for found in cases]


TABLES = (LOSSES, HEADS, BATCH_ORDERS, GRADIENT_METHODS, LOSS_WEIGHTINGS)
SETTINGS_OF_METHODS = fields_of(entry.settings for table in TABLES for entry in table.values())
"""Fields that entries of tables bring, which need no case of their own; some have one."""


def test_every_field_of_the_configuration_has_a_case(alone: TrialConfig) -> None:
    definitions = {key for key in leaves(to_dict(alone)) if key.startswith("data.tasks.")}
    keys = set(leaves(to_dict(alone)))
    of_methods = {
        key for key in keys if key.rpartition(".")[2] in SETTINGS_OF_METHODS or key.split(".")[0] in PENALTIES
    }
    missing = keys - definitions - ALONE.keys() - of_methods
    assert not missing, f"tests/mtlib/stages/inert_cases.py needs cases of {missing}"
    assert ALONE.keys() | of_methods <= keys - definitions


@pytest.mark.parametrize("name", BASES)
def test_only_effective_settings_change_the_key(
    name: str, alone: TrialConfig, trainer: Trainer, start_folders: dict[str, str]
) -> None:
    config, wrong = build(alone, dict(BASES[name].changes), start_folders), []
    own = trainer.cut(config)
    for key, found in cases_of(BASES[name].differing):
        try:
            under = build(config, found.under, start_folders)
            changed = build(under, {key: found.value}, start_folders)
        except ValueError:
            if found.verdict != REFUSED:
                wrong.append(f"{key}={found.value} is refused")
            continue
        before, after = trainer.cut(under) if found.under else own, trainer.cut(changed)
        holds = {
            INERT: before.key == after.key and changed != under,
            BEST: before.key != after.key == before.key_with_best,
            REFUSED: changed == under,
        }
        if not holds.get(found.verdict, before.key != after.key):
            wrong.append(f"{key}={found.value} must be {found.verdict}")
    assert not wrong


def groups_of(config: TrialConfig, table: Table, start_folders: dict[str, str]) -> list[tuple[TrialConfig, Changes]]:
    """Configurations, and for each as many compatible inert changes of one group of fields as possible."""
    groups: dict[tuple[str, str, int], tuple[TrialConfig, Changes]] = {}
    for key, found in cases_of(table):
        if found.verdict == INERT:
            group = key if key.endswith(".role") else key.rpartition(".")[0]  # augmentation would read the other path
            under = build(config, found.under, start_folders)
            for number in itertools.count():
                _, changes = groups.setdefault((group, repr(found.under), number), (under, {}))
                if key not in changes and is_allowed(under, {**changes, key: found.value}, start_folders):
                    changes[key] = found.value
                    break
    return list(groups.values())


def is_allowed(config: TrialConfig, changes: Changes, start_folders: dict[str, str]) -> bool:
    try:
        build(config, changes, start_folders)
    except ValueError:
        return False
    return True


def is_origin_or_score(name: str) -> bool:
    """Parts of a state with its origin or its scores."""
    return name in ("origin", "best", "risen")


@pytest.mark.parametrize("name", ALL_BASES)
def test_inert_settings_change_no_bit_of_the_result_and_others_do(
    name: str, alone: TrialConfig, trainer: Trainer, start_folders: dict[str, str]
) -> None:
    config, table = build(alone, dict(BASES[name].changes), start_folders), BASES[name].differing
    outcomes: dict[TrialConfig, Outcome] = {}

    def outcome(config: TrialConfig) -> Outcome:
        if config not in outcomes:
            outcomes[config] = trainer.outcome(config)
        return outcomes[config]

    for under, changes in groups_of(config, table, start_folders):
        assert_equal(outcome(under), trainer.outcome(build(under, changes, start_folders)))
    for key, found in cases_of(table):
        if found.verdict in (REACHES, SCORES, BEST):
            under = build(config, found.under, start_folders)
            before, after = outcome(under), trainer.outcome(build(under, {key: found.value}, start_folders))
            if found.verdict == REACHES:
                assert difference(before, after, is_origin_or_score) is not None, f"{key}={found.value}"
            else:
                assert difference(before, after, lambda n: is_origin_or_score(n) or n.startswith("stage_best")) is None


def test_a_patience_counts_once_it_can_have_run_out(alone: TrialConfig) -> None:
    long = alone.override({"stages.0.epochs": 6, "stages.0.score_every": 2})
    for patience, counts in {
        1: [False, False, False, True, True, True],
        2: [False] * 5 + [True],
        3: [False] * 6,
    }.items():
        own = long.override({"stages.0.patience": patience})
        both = [[effective_settings(one, 0, epochs) for epochs in range(1, 7)] for one in (long, own)]
        assert [first != second for first, second in zip(*both, strict=True)] == counts


def test_of_a_definition_only_what_labels_mean_counts(alone: TrialConfig) -> None:
    assert effective_settings(alone, 0, 1)["definitions"].keys() == {"qqp"}, "SST has not been active"
    changed = {"title": "Questions", "label_column": "same", "files": {"train": "a.csv", "dev": "b.csv"}, "weight": 2.0}
    changed |= {"metric": "f1"}
    counts = {}
    for name, value in changed.items():
        other = alone.override({f"data.tasks.qqp.{name}": value})
        counts[name] = effective_settings(other, 0, 1) != effective_settings(alone, 0, 1)
    assert counts == {"title": False, "label_column": False, "files": False, "weight": True, "metric": True}


def test_a_state_with_overall_scores_has_another_key(alone: TrialConfig, trainer: Trainer) -> None:
    complete = alone.override({"stages.1.tasks": ["qqp"], "smart.tasks": ["qqp"], "smart.weight": 0})
    incomplete = complete.override({"stages.1.tasks": ["qqp", "sst"]})
    assert trainer.cut(complete).key != trainer.cut(incomplete).key
    assert difference(trainer.outcome(complete), trainer.outcome(incomplete)) == "best"


def test_with_one_set_all_orders_have_one_key(alone: TrialConfig, trainer: Trainer) -> None:
    configs = [
        alone.override({"stages.0.order": order, "stages.0.sum_losses": is_summed, "stages.0.epochs": 2})
        for order, entry in BATCH_ORDERS.items()
        for is_summed in {False, entry.has_rounds}
    ]
    assert len({trainer.cut(config, 0, 2).key for config in configs}) == 1


TWO_SETS = {"stages.0.tasks": ["qqp", "sts"], "stages.0.steps_per_epoch": 6, "stages.0.epochs": 2}
TAUGHT = {"proximal.weight": 1, "proximal.tasks": ["sst"]}


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"optimizer.schedule": "slanted_triangular"}, True),
        ({**TWO_SETS, "stages.0.order": "annealed"}, True),
        ({**TWO_SETS, "stages.0.order": "annealed", "stages.0.annealing": 0}, False),
        ({**TWO_SETS, "stages.0.order": "unimax", "stages.0.max_passes": 1}, True),
        ({**TAUGHT, "proximal.late_decay": 0.5}, True),
        ({"proximal.late_decay": 0.5}, False),
    ],
)
def test_a_longer_stage_passes_the_end_of_a_shorter_one_unless_its_length_counts(
    changes: Changes, counts: bool, alone: TrialConfig, trainer: Trainer
) -> None:
    short = alone.override(changes)
    epochs, long = short.stages[0].epochs, short.override({"stages.0.epochs": 5})
    assert length_counts(short, 0) == length_counts(long, 0) == counts
    assert (trainer.cut(short, 0, epochs).key != trainer.cut(long, 0, epochs).key) == counts
    one, other = trainer.outcome(short, 0, epochs), trainer.outcome(long, 0, epochs)
    assert (difference(one, other, is_origin_or_score) is not None) == counts


def test_a_held_out_share_counts_only_by_its_rows(alone: TrialConfig, trainer: Trainer) -> None:
    """The first two shares hold out 15 of the 70 rows of QQP, and 4 and 5 of the 22 rows of STS, a later task."""
    config, same, other = (alone.override({"data.hold_out": share}) for share in (0.22, 0.228, 0.2))
    assert effective_settings(config, 0, 1) == effective_settings(alone, 0, 1)
    assert trainer.origin(config).data != trainer.origin(same).data
    assert trainer.cut(config).key == trainer.cut(same).key
    assert_equal(trainer.outcome(config), trainer.outcome(same))
    assert len({trainer.cut(found).key for found in (alone, config, other)}) == 3


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"smart.weight": 2}, True),
        ({"tasks.sts.batch_size": 3}, True),
        ({"stages.0.order": "uniform"}, False),
        ({"stages.0.reset_optimizer": True}, False),
        ({"stages.1.reset_optimizer": True}, True),
    ],
)
def test_the_settings_of_a_second_stage_count_from_its_start(
    changes: Changes, counts: bool, alone: TrialConfig
) -> None:
    changed = alone.override(changes)
    assert (effective_settings(changed, 1, 1) != effective_settings(alone, 1, 1)) == counts


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"tasks.sts.hidden_units": 5}, True),
        ({"relational_tasks": ["sts"]}, True),
        ({"stages.1.tasks": ["qqp", "sst"]}, True),  # no head for STS
        ({"tasks.sts.pooling": "mean"}, False),
        ({"smart.weight": 3}, False),
        ({"loss_weighting": "famo", "stages.1.order": "batch_round_robin", "stages.1.sum_losses": True}, False),
    ],
)
def test_with_more_than_two_workers_the_shapes_of_all_weights_count(
    changes: Changes, counts: bool, alone: TrialConfig
) -> None:
    other = alone.override(changes)
    for num_workers in (1, 2, 3):
        own, found = (effective_settings(config, 0, 1, num_workers) for config in (alone, other))
        assert (own != found) == (counts and num_workers > 2), num_workers


@pytest.mark.parametrize("num_workers", [1, 4])
def test_a_task_that_no_stage_trains_changes_no_key(num_workers: int) -> None:
    tasks = {name: TASKS[name] for name in ("qqp", "sts")}
    changes = {"pals.size": 8, "pals.num_heads": 2, "smart.weight": 1, "simcse.weight": 1, "precision": "fp32"}
    changes |= {"tasks.qqp.encoding": "cross", "tasks.sts.encoding": "cross"}  # no other fits a relational layer
    two, three = general(tasks).override(changes), general({**tasks, "sst": TASKS["sst"]}).override(changes)
    two, three = two.override({"relational_tasks": "qqp"}), three.override({"relational_tasks": ["sst", "qqp"]})
    some = three.override({"stages": two.stages})
    own, found, all_three = (effective_settings(config, 0, 1, num_workers) for config in (two, some, three))
    assert own == found != all_three
