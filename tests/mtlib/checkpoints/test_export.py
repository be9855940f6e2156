"""Exported models: `transformers` gives the same hidden states, and the whole model the same logits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from mtlib.checkpoints.export import FILES, export_model, load_exported, written_aside
from mtlib.checkpoints.initial_weights import load_start, read_starting_weights
from mtlib.checkpoints.model_card import CardFacts
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.active_weights import active_weights
from mtlib.training.evaluation import predict

CPU = torch.device("cpu")
TEXTS = ["the bad film", "a very slow old dog sleeps", "cat"]
PALS = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp"]}
COSINE = {"tasks.sts.encoding": "bi", "tasks.sts.head": "cosine"}
SIMCSE = {"simcse.weight": 0.1, "simcse.tasks": ["sts"]}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "PALs": PALS,
    "PALs beside layers": {**PALS, "pals.placement": "layer", "pals.function": "identity"},
    "low-rank layers": {**PALS, "pals.function": "low_rank"},
    "cosine": {**COSINE, "tasks.qqp.encoding": "bi", "tasks.qqp.head": "cosine", "tasks.qqp.cosine_projection": False},
    "relational": {"relational_tasks": ["qqp", "sts"], "tasks.sst.hidden_units": 7, "tasks.sst.pooling": "mean"},
    "two logits": {"tasks.qqp.loss": "cross_entropy", "tasks.qqp.encoding": "cross_no_separator"},
    "all": {**PALS, **COSINE, **SIMCSE, "relational_tasks": ["qqp"], "loss_weighting": "uncertainty"},
}


@pytest.fixture
def facts() -> CardFacts:
    return CardFacts(
        title="tiny",
        best="overall",
        epoch=2,
        steps=20,
        scores={"overall": {"overall": 0.5}},
        data_fingerprint="0" * 64,
        num_rows={},
        versions={},
    )


@pytest.fixture
def trained(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> Callable[..., MultiTaskModel]:
    """A model in evaluation mode with every weight changed, for some dotted keys."""

    def build(config: TrialConfig = tiny_config) -> MultiTaskModel:
        stream, model = torch.Generator().manual_seed(1), MultiTaskModel(config, tiny_encoder)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=stream))
        return model.eval()

    return build


Trained = Callable[..., MultiTaskModel]


def logits_of(model: MultiTaskModel, config: TrialConfig, corpus: Corpus) -> dict[str, np.ndarray]:
    return {task: predict(model, config, corpus, task, "dev", CPU).logits for task in config.active_tasks}


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_export_gives_exactly_the_same_logits(
    name: str,
    tmp_path: Path,
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    tiny_corpus: Corpus,
    trained: Trained,
    facts: CardFacts,
) -> None:
    config = tiny_config.override(MODELS[name])
    model = trained(config)
    export_model(config, tiny_encoder, model.state_dict(), tmp_path / "model", facts)
    exported = load_exported(tmp_path / "model")
    assert exported.config == config
    assert not any(module.training for module in exported.model.modules())
    expected, found = logits_of(model, config, tiny_corpus), logits_of(exported.model, exported.config, tiny_corpus)
    assert set(found) == {"sst", "qqp", "sts"}
    for task, logits in expected.items():
        assert np.array_equal(found[task], logits)
        assert len(np.unique(logits)) > 5, "logits must differ between texts"
    kept = exported.model.state_dict()
    assert kept.keys() == model.state_dict().keys()
    assert all(torch.equal(kept[key], weight) for key, weight in model.state_dict().items())


@torch.no_grad()
def test_plain_transformers_gives_exactly_the_same_hidden_states(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    config = tiny_config.override(MODELS["all"])
    model = trained(config)
    export_model(config, tiny_encoder, model.state_dict(), tmp_path / "model", facts)
    encoder, tokenizer = (kind.from_pretrained(tmp_path / "model") for kind in (AutoModel, AutoTokenizer))
    assert not encoder.training
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert dict(inputs)["input_ids"].tolist() == tiny_encoder.tokenizer(TEXTS, padding=True)["input_ids"]
    found = encoder(**inputs, output_hidden_states=True).hidden_states
    expected = model.encoder(**inputs, output_hidden_states=True).hidden_states
    pretrained = AutoModel.from_pretrained(tiny_encoder.name)(**inputs).last_hidden_state
    assert len(found) == 3
    assert all(torch.equal(*states) for states in zip(found, expected, strict=True))
    assert not torch.allclose(found[-1], pretrained)


@torch.no_grad()
def test_an_adapter_is_exported_merged_and_as_peft_loads_it(
    tmp_path: Path,
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    tiny_corpus: Corpus,
    facts: CardFacts,
) -> None:
    config = tiny_config.override({**PALS, "adapter.method": "lora", "adapter.targets": ["query", "output.dense"]})
    model, folder = MultiTaskModel(config, tiny_encoder), tmp_path / "model"
    for parameter in (one for one in model.parameters() if one.requires_grad):
        parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    kept = active_weights(config, config.active_tasks, model.eval().state_dict())
    assert sum(weight.numel() for weight in kept.values()) < sum(one.numel() for one in model.parameters()) / 2
    export_model(config, tiny_encoder, kept, folder, facts)
    inputs = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    expected = model.encoder(**inputs).last_hidden_state
    pretrained = AutoModel.from_pretrained(tiny_encoder.name)
    assert not torch.allclose(pretrained(**inputs).last_hidden_state, expected, atol=0.1)
    merged = AutoModel.from_pretrained(folder)(**inputs).last_hidden_state
    torch.testing.assert_close(merged, expected, rtol=1e-4, atol=1e-4)
    beside = PeftModel.from_pretrained(pretrained, folder / "adapter").eval()
    assert torch.equal(beside(**inputs).last_hidden_state, expected)
    exported = load_exported(folder)
    expected_logits, found = logits_of(model, config, tiny_corpus), logits_of(exported.model, config, tiny_corpus)
    for task, logits in expected_logits.items():
        np.testing.assert_allclose(found[task], logits, rtol=1e-4, atol=1e-4)
    assert str(Path(tiny_encoder.name).parent) not in (folder / "adapter" / "adapter_config.json").read_text()


def test_the_folder_holds_the_files_of_the_card_and_names_no_path(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    export_model(tiny_config, tiny_encoder, trained().state_dict(), tmp_path / "deep" / "model", facts)
    folder = tmp_path / "deep" / "model"
    assert {path.name for path in folder.iterdir()} == {*FILES, "tokenizer_config.json", "README.md"}
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    for name in ("config.json", "tokenizer_config.json", "README.md"):
        assert str(Path(tiny_encoder.name).parent) not in (folder / name).read_text()
    assert TrialConfig.from_json((folder / "trial.json").read_text()) == tiny_config
    names = set(load_file(folder / "tasks.safetensors"))
    assert {name.split(".")[0] for name in names} == {"heads"}


def test_a_model_without_head_weights_is_exported_and_loaded(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tiny_corpus: Corpus, facts: CardFacts
) -> None:
    """A cosine without projection has none."""
    bare = {f"tasks.qqp.{key}": value for key, value in (("encoding", "bi"), ("head", "cosine"))}
    changes = {**bare, "tasks.qqp.cosine_projection": False, "smart.weight": 0.0, "stages.1.tasks": ["qqp"]}
    config = tiny_config.override(changes)
    model = MultiTaskModel(config, tiny_encoder).eval()
    export_model(config, tiny_encoder, model.state_dict(), tmp_path / "model", facts)
    assert load_file(tmp_path / "model" / "tasks.safetensors") == {}
    found = logits_of(load_exported(tmp_path / "model").model, config, tiny_corpus)["qqp"]
    assert np.array_equal(found, logits_of(model, config, tiny_corpus)["qqp"])


def test_a_new_trial_starts_from_an_export_with_its_heads(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    config = tiny_config.override(MODELS["all"])
    weights = trained(config).state_dict()
    export_model(config, tiny_encoder, weights, tmp_path / "model", facts)
    again = config.override(
        {"seed": 5, "encoder.start_from": str(tmp_path / "model"), "encoder.start_heads": True, "encoder.dropout": 0.2}
    )
    model = MultiTaskModel(again, tiny_encoder)
    load_start(again.encoder, model, read_starting_weights(again.encoder))
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in weights.items())


def test_exporting_an_exported_model_gives_the_same_files(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    export_model(tiny_config, tiny_encoder, trained().state_dict(), tmp_path / "first", facts)
    first = load_exported(tmp_path / "first")
    export_model(first.config, first.pretrained, first.model.state_dict(), tmp_path / "second", facts)
    for name in set(FILES) - {"config.json"}:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


def test_an_existing_folder_is_not_changed(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(ValueError, match=r"^an exported model's folder must be new, got .*model$"):
        export_model(tiny_config, tiny_encoder, trained().state_dict(), tmp_path / "model", facts)
    assert not list((tmp_path / "model").iterdir())


def test_a_folder_that_cannot_be_replaced_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, rename = tmp_path / "model", Path.rename
    place.mkdir()
    (place / "mark").write_text("mine")

    def fail_for_new(path: Path, target: Path) -> Path:
        if path.name.endswith(".partial"):
            raise OSError("not permitted")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_for_new)
    with pytest.raises(ValueError, match=r"got .*model: not permitted$"), written_aside(place, "it", "mark") as new:
        (new / "mark").write_text("other")
    assert list(tmp_path.iterdir()) == [place]
    assert (place / "mark").read_text() == "mine"


def test_weights_that_do_not_fit_are_one_line_and_leave_nothing(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    weights = trained().state_dict()
    more: dict[str, Tensor] = {**weights, "pals.sst.up.weight": torch.zeros(1)}
    wide = tiny_config.override({"tasks.sst.hidden_units": 7})
    for config, given, fault in (
        (
            tiny_config,
            {n: w for n, w in weights.items() if n != "heads.sst.bias"},
            "1 weight is missing, first heads.sst",
        ),
        (tiny_config, more, "1 weight is unknown to it, first pals.sst.up.weight"),
        (wide, weights, "2 weights are missing, first heads.sst.hidden.bias"),
    ):
        with pytest.raises(ValueError, match=f"^the weights must fit the trial's configuration: {fault}"):
            export_model(config, tiny_encoder, given, tmp_path / "model", facts)
    assert not list(tmp_path.iterdir())


def early(config: TrialConfig, weights: dict[str, Tensor], *tasks: str) -> dict[str, Tensor]:
    """The weights kept by an epoch in which only these tasks are active so far."""
    return {name: weight.clone() for name, weight in active_weights(config, tasks, weights).items()}


@pytest.mark.parametrize("name", MODELS)
def test_an_early_epoch_is_exported_with_new_weights_for_tasks_not_yet_active(
    name: str,
    tmp_path: Path,
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    tiny_corpus: Corpus,
    trained: Trained,
    facts: CardFacts,
) -> None:
    config = tiny_config.override(MODELS[name])
    model = trained(config)
    whole, new = model.state_dict(), MultiTaskModel(config, tiny_encoder).state_dict()
    kept = early(config, whole, "qqp")
    assert {"heads.sst.weight", "heads.sst.bias"} <= whole.keys() - kept.keys()
    export_model(config, tiny_encoder, kept, tmp_path / "model", facts)
    exported = load_exported(tmp_path / "model")
    found = exported.model.state_dict()
    assert found.keys() == whole.keys()
    for key, weight in found.items():
        assert torch.equal(weight, kept.get(key, new[key])), key
    expected = predict(model, config, tiny_corpus, "qqp", "dev", CPU).logits
    assert np.array_equal(predict(exported.model, config, tiny_corpus, "qqp", "dev", CPU).logits, expected)


def test_a_task_without_a_head_is_active_only_where_its_other_weights_exist(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    """A cosine without projection has no weight, but PALs or SimCSE's projection can be new."""
    bare = {**COSINE, "tasks.sts.cosine_projection": False}
    for more in ({}, SIMCSE, {**PALS, "pals.tasks": ["sts"]}):
        config = tiny_config.override({**bare, **more})
        weights = trained(config).state_dict()
        for tasks in (("qqp",), ("qqp", "sst"), ("qqp", "sts"), ("sst", "qqp", "sts")):
            folder = tmp_path / f"{len(more)} {tasks}"
            export_model(config, tiny_encoder, early(config, weights, *tasks), folder, facts)
            found = load_exported(folder).model.state_dict()
            assert all(torch.equal(found[key], weights[key]) for key in early(config, weights, *tasks))


def test_weights_without_any_task_are_refused(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    weights = early(tiny_config, trained().state_dict())
    assert {name.split(".")[0] for name in weights} == {"encoder"}
    with pytest.raises(ValueError, match=r"6 weights are missing, first heads\.qqp\.bias"):
        export_model(tiny_config, tiny_encoder, weights, tmp_path / "model", facts)


def test_a_task_with_half_its_weights_is_not_an_early_epoch(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    config = tiny_config.override(PALS)
    weights = trained(config).state_dict()
    without_head = {name: weight for name, weight in weights.items() if not name.startswith("heads.sst.")}
    with pytest.raises(ValueError, match=r"2 weights are missing, first heads\.sst\.bias"):
        export_model(config, tiny_encoder, without_head, tmp_path / "model", facts)


def test_an_unwritable_folder_is_one_line(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a place that can be written, got ") as e:
        export_model(tiny_config, tiny_encoder, trained().state_dict(), tmp_path / "file" / "model", facts)
    assert len(str(e.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("patched", "error"),
    [
        ("mtlib.checkpoints.export.save_file", OSError("no space left on device")),
        ("transformers.PreTrainedTokenizerBase.save_pretrained", Exception("no space left on device")),
    ],
    ids=["weights", "tokenizer"],
)
def test_a_failure_during_export_leaves_nothing(
    patched: str,
    error: Exception,
    tmp_path: Path,
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    trained: Trained,
    facts: CardFacts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tokenizers library raises a bare Exception on a full disk."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(patched, fail)
    with pytest.raises(ValueError, match=r"got .*model: no space left on device"):
        export_model(tiny_config, tiny_encoder, trained().state_dict(), tmp_path / "model", facts)
    assert not list(tmp_path.iterdir())


def test_all_files_have_the_permissions_of_the_card(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, facts: CardFacts
) -> None:
    export_model(tiny_config, tiny_encoder, trained().state_dict(), tmp_path / "model", facts)
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1
