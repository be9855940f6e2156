"""New heads are fitted to the frozen encoder: against a closed form, and nothing else moves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.loss.losses import mean_squared_error
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.heads import LinearHead
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from mtlib.training.evaluation import predict, score
from mtlib.training.linear_probe import BIAS_PENALTY, FEWEST_ROWS, HeadFit, choose_rows, fit_heads
from mtlib.training.run import Run

CPU = torch.device("cpu")
ALL_ROWS = {f"tasks.{task}.probe_rows": 10_000 for task in TASKS}
New = Callable[[dict[str, Any]], tuple[TrialConfig, MultiTaskModel]]


@pytest.fixture
def new(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> New:
    """Builds a configuration with some changes, and its model."""

    def build(changes: dict[str, Any]) -> tuple[TrialConfig, MultiTaskModel]:
        config = tiny_config.override(changes)
        return config, MultiTaskModel(config, tiny_encoder).train()

    return build


def new_head(width: int) -> LinearHead:
    return LinearHead(torch.nn.Linear(width, 1), hidden=None, is_difference=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks.sst.hidden_units": 7, "tasks.qqp.encoding": "cross_and_bi", "tasks.sts.encoding": "bi"},
        {"tasks.qqp.loss": "cross_entropy", "relational_tasks": "qqp,sts"},
    ],
)
def test_fitted_heads_lower_the_loss_and_nothing_else_moves(
    changes: dict[str, Any], new: New, tiny_corpus: Corpus
) -> None:
    config, model = new({**changes, **ALL_ROWS})

    def losses() -> dict[str, float]:
        parts = {task: predict(model, config, tiny_corpus, task, "train", CPU) for task in TASKS}
        return {task: score(part, config)["loss"] for task, part in parts.items()}

    before, state = losses(), torch.get_rng_state()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert fit_heads(model, config, tiny_corpus, TASKS, CPU) == list(TASKS)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(after < before[task] for task, after in losses().items())
    for name, tensor in model.state_dict().items():
        is_fitted = name.startswith("heads.") and ".hidden." not in name
        assert torch.equal(tensor, start[name]) != is_fitted, name


def test_a_regression_is_fitted_like_ridge_regression() -> None:
    """The bias is a weight with a penalty of its own; features are standardised."""
    stream, penalty = torch.Generator().manual_seed(0), 0.5
    vectors = torch.randn(50, 32, generator=stream) * torch.linspace(0.5, 2, 32) + 1
    labels = 3 + vectors[:, 0] + torch.randn(50, generator=stream)
    fit = HeadFit(new_head(32), vectors, labels, mean_squared_error)
    fit.minimize(slice(None), penalty)
    raw = vectors.double().numpy()
    mean, deviation = raw.mean(0), raw.std(0, ddof=1)
    x, y = np.c_[(raw - mean) / deviation, np.ones(50)], labels.double().numpy()
    gram = x.T @ x / 50 + np.diag([penalty] * 32 + [BIAS_PENALTY])
    expected = np.linalg.solve(gram, x.T @ y / 50)
    assert [*fit.weight.detach().numpy()[0], fit.bias.item()] == pytest.approx(expected, abs=1e-4)
    weight, bias = fit.layer()
    assert (raw @ weight.numpy()[0] + bias.item()) == pytest.approx(x @ expected, abs=1e-3)


def test_a_penalty_is_chosen_on_rows_that_were_not_fitted() -> None:
    """Labels that the vectors do not explain leave the weights near 0; labels that they do explain are found."""
    stream = torch.Generator().manual_seed(0)
    vectors = torch.randn(400, 32, generator=stream)
    noise, true = torch.randn(400, generator=stream), vectors[:, 0] * 2
    sizes = {}
    for name, labels in (("noise", noise), ("true", true)):
        fit = HeadFit(new_head(32), vectors, labels, mean_squared_error)
        fit.fit()
        sizes[name] = fit.layer()[0].norm().item()
    assert sizes["noise"] < 0.2
    assert sizes["true"] == pytest.approx(2, abs=0.1)
    assert fit.layer()[0][0, 0].item() == pytest.approx(2, abs=0.1)


def test_rows_are_own_train_rows_and_differ_between_replicates(tiny_config: TrialConfig, tiny_corpus: Corpus) -> None:
    table = tiny_corpus["sst", "train"]
    found = [
        choose_rows(tiny_config.override({"tasks.sst.probe_rows": 20, "replicate": replicate}), table)
        for replicate in (0, 0, 1)
    ]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert len(set(found[0])) == 20
    assert max(found[0]) < table.num_own_rows
    assert len(choose_rows(tiny_config.override(ALL_ROWS), table)) == table.num_own_rows
    assert len(choose_rows(tiny_config, table)) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tasks.sts.probe_rows": FEWEST_ROWS - 1},
        {**ALL_ROWS, "tasks.sts.encoding": "bi", "tasks.sts.head": "cosine"},
    ],
)
def test_heads_that_are_not_to_be_fitted_stay(changes: dict[str, Any], new: New, tiny_corpus: Corpus) -> None:
    config, model = new(changes)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert fit_heads(model, config, tiny_corpus, ["sts"], CPU) == []
    assert all(torch.equal(tensor, start[name]) for name, tensor in model.state_dict().items())


def test_loaded_heads_stay_and_the_others_are_fitted(new_run: Callable[..., Run], tmp_path: Path) -> None:
    weights = new_run().model.state_dict()
    path = tmp_path / "weights.safetensors"
    save_file({name: tensor for name, tensor in weights.items() if not name.startswith("heads.qqp.")}, path)
    start = {"encoder.start_from": str(path), "encoder.start_heads": True, "stages.0.tasks": list(TASKS)}
    heads, new_heads = (new_run({**start, **changes}).model.heads for changes in (ALL_ROWS, {}))
    fitted = {
        task: not torch.equal(heads.state_dict()[f"{task}.weight"], new_heads.state_dict()[f"{task}.weight"])
        for task in TASKS
    }
    assert fitted == {"sst": False, "qqp": True, "sts": False}


def test_the_mean_teacher_begins_with_the_fitted_heads(new_run: Callable[..., Run]) -> None:
    run = new_run({**ALL_ROWS, "proximal.weight": 1.0, "proximal.tasks": "sst,qqp,sts"})
    assert run.teacher is not None
    for name, tensor in run.model.heads.state_dict().items():
        assert torch.equal(tensor, run.teacher.heads.state_dict()[name])
