"""A soup is the model whose weights are the mean, by hand; a soup of one is that model; other shapes are refused."""

import shutil
import weakref
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mtlib.checkpoints.best_weights import keep_best
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from mtlib.training.evaluation import predict
from results.analysis.comparison.bootstrap import Floats
from results.inference.dev_texts import read_dev_texts
from results.inference.models import LoadedModel, ModelSource, load_models
from results.inference.predictor import load_predictor, model_logits, predict_texts, tokenize_rows
from results.inference.soup_model import find_shapes, load_soup
from results.records.selection import Member, Selection, read_selection, write_selection
from results.records.tables import read_trials, write_trials
from results.records.trials import write_sweep
from results.records.weights import read_trial_weights
from tests.mtlib.stages.inert_cases import OTHER_PREDICTION, SAME_PREDICTION, all_tasks_config
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record
from tests.results.inference.trained_sweep import kept_epoch, member_of, selection_of
from tests.results.selection.soup_sweep import ALIKE, BI_TASK, OTHER, train_soup_sweep

each_task = pytest.mark.parametrize("task", TASKS)


@pytest.fixture(scope="module")
def soup_folder(
    tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> Path:
    """A trained sweep, not to be changed."""
    return train_soup_sweep(tmp_path_factory.mktemp("soups") / "mine", tiny_folder, tiny_corpus, tiny_encoder)


def source_of(folder: Path, name: str | None = None) -> ModelSource:
    return ModelSource(places={name or str(folder): folder}, device="cpu")


def members_of(folder: Path, task: str, trials: Sequence[str]) -> tuple[Member, ...]:
    return tuple(member_of(folder, trial, task, 1 / len(trials)) for trial in trials)


def weights_of(folder: Path, member: Member) -> dict[str, Tensor]:
    """A member's weights, from the file itself."""
    path = folder / f"trials/{member.trial}/checkpoint/weights/epoch-{member.epoch:04d}.safetensors"
    return dict(load_file(path))


def soup_selection(folder: Path, task: str, members: tuple[Member, ...]) -> Selection:
    found = selection_of(folder, {task: members})
    return replace(found, tasks={task: replace(found.tasks[task], is_soup=True)})


def dev_logits(model: LoadedModel, folder: Path, task: str) -> Floats:
    """What a model says of dev."""
    return model_logits(model, task, tokenize_rows(TASKS[task], read_dev_texts(folder, task), model.pretrained))


@each_task
def test_logits_equal_those_of_mean_weights_by_hand(
    task: str, soup_folder: Path, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    members = members_of(soup_folder, task, (ALIKE[0], ALIKE[2]))
    first, second = (weights_of(soup_folder, member) for member in members)
    config = TrialConfig.from_json(read_trials(soup_folder)[0].config)
    by_hand = MultiTaskModel(config, tiny_encoder)
    by_hand.load_state_dict({name: torch.stack([first[name], second[name]]).mean(0) for name in first})
    expected = predict(by_hand, config, tiny_corpus, task, "dev", torch.device("cpu")).logits
    soup = load_soup(members, task, source_of(soup_folder))
    found = dev_logits(soup, soup_folder, task)
    assert np.abs(found - expected).max() <= 1e-5
    for single in load_models(members, task, source_of(soup_folder)):
        assert np.abs(dev_logits(single, soup_folder, task) - expected).max() > 1e-3  # else anything would pass


@each_task
@pytest.mark.parametrize("trial", [*ALIKE, OTHER])
def test_soup_of_one_is_that_model_bit_for_bit(task: str, trial: str, soup_folder: Path) -> None:
    (member,) = members_of(soup_folder, task, [trial])
    source = source_of(soup_folder)
    soup, (single,) = load_soup([member], task, source), load_models([member], task, source)
    np.testing.assert_array_equal(dev_logits(soup, soup_folder, task), dev_logits(single, soup_folder, task))
    assert not soup.model.training
    kept = weights_of(soup_folder, member)
    assert all(torch.equal(weight, kept[name]) for name, weight in soup.model.state_dict().items())


@each_task
def test_soup_of_three_copies_is_that_model_bit_for_bit(task: str, soup_folder: Path) -> None:
    """In single precision (x + x + x) / 3 is not always x."""
    (member,) = members_of(soup_folder, task, ALIKE[:1])
    soup = load_soup([replace(member, weight=1 / 3)] * 3, task, source_of(soup_folder))
    kept = weights_of(soup_folder, member)
    assert all(torch.equal(weight, kept[name]) for name, weight in soup.model.state_dict().items())


def test_mean_is_rounded_once_in_any_order_of_members(soup_folder: Path) -> None:
    members = members_of(soup_folder, "sst", ALIKE)
    parts = [weights_of(soup_folder, member) for member in members]
    for order in permutations(members):
        found = load_soup(order, "sst", source_of(soup_folder)).model.state_dict()
        assert {name.split(".")[0] for name in found} == {"encoder", "heads"}
        for name, weight in found.items():
            exact = np.mean([part[name].numpy().astype(np.longdouble) for part in parts], axis=0)
            np.testing.assert_array_equal(weight.numpy(), exact.astype(np.float32))


def test_selected_soup_predicts_as_one_model(soup_folder: Path, tmp_path: Path) -> None:
    members = members_of(soup_folder, "qqp", (ALIKE[0], ALIKE[2]))
    write_selection(tmp_path, soup_selection(soup_folder, "qqp", members))
    predictor = load_predictor(read_selection(tmp_path), "qqp", source_of(soup_folder))
    (model,) = predictor.models
    texts = read_dev_texts(soup_folder, "qqp")
    expected = np.tanh(dev_logits(load_soup(members, "qqp", source_of(soup_folder)), soup_folder, "qqp") / 2)
    assert np.abs(predict_texts(predictor, texts) - expected).max() <= 1e-6
    assert model.name.startswith(f"the soup of trial {ALIKE[0]} of {soup_folder} at epoch ")
    plain = load_predictor(selection_of(soup_folder, {"qqp": members}), "qqp", source_of(soup_folder))
    assert len(plain.models) == 2
    assert np.abs(predict_texts(plain, texts) - expected).max() > 1e-3


@each_task
def test_shapes_follow_from_configurations_and_need_no_weights(task: str, soup_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(soup_folder, tmp_path / "mine"))
    for trial in (*ALIKE, OTHER):
        shutil.rmtree(folder / "trials" / trial)
    members = [Member(sweep=str(folder), trial=one, epoch=9, weight=1) for one in (OTHER, *ALIKE, ALIKE[0])]
    found = find_shapes(members, task, source_of(folder)).tolist()
    assert found == ([0, 1, 2, 1, 1] if task == BI_TASK else [0, 1, 1, 1, 1])


@pytest.mark.parametrize("changes", [*SAME_PREDICTION, *OTHER_PREDICTION])
def test_averaged_part_is_enough_to_predict(
    changes: dict[str, Any], tmp_path: Path, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    """Whatever the network: the soup of one says what the whole model says."""
    own = {"encoder.max_length": 32, **changes, "encoder.name": tiny_encoder.name}
    config = all_tasks_config().override({name: value for name, value in own.items() if name != "encoder.start_from"})
    model = MultiTaskModel(config, tiny_encoder)
    keep_best(StateFolder(path=tmp_path / "trials/0000-r0/checkpoint"), 1, {"overall": 1}, model.state_dict())
    write_trials(tmp_path, [build_record(0, config=config.to_json())], tuple(TASKS))
    write_sweep(tmp_path, {"name": "mine"})
    member, source = Member(sweep="mine", trial="0000-r0", epoch=1, weight=1.0), source_of(tmp_path, "mine")
    for task in TASKS:
        soup = load_soup([member], task, source)
        found = predict(soup.model, soup.config, tiny_corpus, task, "dev", torch.device("cpu")).logits
        expected = predict(model, config, tiny_corpus, task, "dev", torch.device("cpu")).logits
        np.testing.assert_array_equal(found, expected)


def soup_error(folder: Path, task: str, members: Sequence[Member]) -> str:
    return one_line_error(load_soup, members, task, source_of(folder))


def test_members_of_another_shape_are_refused_by_name(soup_folder: Path) -> None:
    members = members_of(soup_folder, BI_TASK, (ALIKE[0], ALIKE[2], ALIKE[1]))
    line = soup_error(soup_folder, BI_TASK, members)
    rule = f"members of a soup must have one encoder and one shape, got trial {ALIKE[1]} of {soup_folder} at epoch "
    assert line.startswith(rule)
    assert f"whose are others than those of trial {ALIKE[0]} of " in line
    assert soup_error(soup_folder, "sst", members_of(soup_folder, "sst", (ALIKE[0], OTHER))).startswith(
        "members of a soup must have one encoder and one shape"
    )


def test_members_with_other_weights_in_the_mean_are_refused(soup_folder: Path) -> None:
    first, second = members_of(soup_folder, "sst", ALIKE[:2])
    uneven = (replace(first, weight=0.75), replace(second, weight=0.25))
    assert soup_error(soup_folder, "sst", uneven) == "members of a soup must have equal weights, got 0.75, 0.25"
    wrong = soup_selection(soup_folder, "sst", (replace(first, weight=0.9), replace(second, weight=0.9)))
    with pytest.raises(ValueError, match=r"^weights of members must sum to 1, got 1.8$"):
        load_predictor(wrong, "sst", source_of(soup_folder))


def test_missing_or_wrong_weights_are_one_line(soup_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(soup_folder, tmp_path / "mine"))
    members = members_of(folder, "sst", ALIKE[:2])
    path = folder / f"trials/{ALIKE[1]}/checkpoint/weights/epoch-{kept_epoch(folder, ALIKE[1], 'sst'):04d}.safetensors"
    path.unlink()
    assert f"weights must be whole, {path} is missing (a sweep deletes" in soup_error(folder, "sst", members)
    weights = {**weights_of(folder, members[0])}
    del weights["heads.sst.bias"]
    states = StateFolder(path=folder / f"trials/{ALIKE[1]}/checkpoint")
    keep_best(states, members[1].epoch, {"sst": members[1].epoch}, weights)
    line = soup_error(folder, "sst", members)
    assert line.endswith("1 weight is missing, first heads.sst.bias")
    assert line.startswith(f"weights of trial {ALIKE[1]} of {folder} at epoch ")
    shrunk = {**weights_of(soup_folder, members[0]), "heads.sst.bias": torch.zeros(4)}
    keep_best(states, members[1].epoch, {"sst": members[1].epoch}, shrunk)
    assert soup_error(folder, "sst", members).endswith("1 weight is of another size, first heads.sst.bias")
    alone = soup_error(folder, "sst", [replace(members[1], weight=1.0)])
    assert alone.startswith("weights must fit the configuration of the soup of trial ")


def test_weights_of_one_member_are_read_at_a_time(soup_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is let go before the next is: the number of models in memory does not grow with the soup."""
    alive: list[weakref.ref[Tensor]] = []

    def read(*arguments: Any) -> dict[str, Tensor]:
        assert sum(one() is not None for one in alive) <= 1
        weights = read_trial_weights(*arguments)
        alive.append(weakref.ref(next(iter(weights.values()))))
        return weights

    monkeypatch.setattr("results.inference.soup_model.read_trial_weights", read)
    load_soup(members_of(soup_folder, "sst", ALIKE), "sst", source_of(soup_folder))
    assert len(alive) == 3
