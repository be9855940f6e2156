"""Exported models: `transformers` gives the same hidden states, and the whole model the same logits."""

from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from mtlib.checkpoints.export import FILES, export_model, load_exported, written_aside
from mtlib.checkpoints.model_card import CardFacts
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.data.tokenizer_facts import AUTO_TOKENIZER, TOKENIZER_FILE
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.active_weights import active_weights
from mtlib.training.evaluation import predict
from tests.one_line_error import one_line_error
from tests.own_tokenizers import FAMILIES, write_own_encoder
from tests.own_tokenizers import TEXTS as OWN_TEXTS

CPU = torch.device("cpu")
TEXTS = ["the bad film", "a very slow old dog sleeps", "cat"]
PALS = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp"]}
COSINE = {"tasks.sts.encoding": "bi", "tasks.sts.head": "cosine"}
SIMCSE = {"simcse.weight": 0.1, "simcse.tasks": ["sts"]}
ALL = {**PALS, **COSINE, **SIMCSE, "relational_tasks": ["qqp"], "loss_weighting": "uncertainty"}
FACTS = CardFacts(
    title="tiny",
    best="overall",
    epoch=2,
    steps=20,
    scores={"overall": {"overall": 0.5}},
    data_fingerprint="0" * 64,
    num_rows={},
    versions={},
)
Trained = Callable[..., MultiTaskModel]
Export = Callable[..., Path]


@pytest.fixture
def trained(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> Trained:
    """A model in evaluation mode with every weight changed."""

    def build(config: TrialConfig = tiny_config) -> MultiTaskModel:
        stream, model = torch.Generator().manual_seed(1), MultiTaskModel(config, tiny_encoder)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=stream))
        return model.eval()

    return build


@pytest.fixture
def export(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path) -> Export:
    """Exports weights to a folder."""

    def write(weights: Mapping[str, Tensor], config: TrialConfig = tiny_config, name: str = "model") -> Path:
        export_model(config, tiny_encoder, weights, tmp_path / name, FACTS)
        return tmp_path / name

    return write


@pytest.mark.parametrize("source", [AUTO_TOKENIZER, TOKENIZER_FILE])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_tokenizer_of_an_export_gives_the_tokens_of_the_training(
    family: str, source: str, tiny_config: TrialConfig, tmp_path: Path
) -> None:
    write_own_encoder(tmp_path / "own", family)
    encoder = load_encoder(str(tmp_path / "own"), source)
    export_model(tiny_config, encoder, MultiTaskModel(tiny_config, encoder).state_dict(), tmp_path / "model", FACTS)
    found = (AutoTokenizer.from_pretrained(tmp_path / "model"), load_exported(tmp_path / "model").pretrained.tokenizer)
    for texts in (*((text,) for text in OWN_TEXTS), ("The Old", "Dog")):
        trained = encoder.tokenizer(*texts, return_token_type_ids=True)
        for tokenizer in found:
            assert tokenizer(*texts, return_token_type_ids=True) == trained
    assert found[0].model_input_names == encoder.tokenizer.model_input_names  # some models take no segments


def logits_of(model: MultiTaskModel, config: TrialConfig, corpus: Corpus) -> dict[str, np.ndarray]:
    return {task: predict(model, config, corpus, task, "dev", CPU).logits for task in config.active_tasks}


def test_a_loaded_export_gives_exactly_the_same_logits(
    tiny_config: TrialConfig, tiny_corpus: Corpus, trained: Trained, export: Export
) -> None:
    config = tiny_config.override(ALL)
    model = trained(config)
    exported = load_exported(export(model.state_dict(), config))
    assert exported.config == config
    assert not any(module.training for module in exported.model.modules())
    expected, found = logits_of(model, config, tiny_corpus), logits_of(exported.model, exported.config, tiny_corpus)
    for task, logits in expected.items():
        assert np.array_equal(found[task], logits)
        assert len(np.unique(logits)) > 5, "logits must differ between texts"
    kept = exported.model.state_dict()
    assert kept.keys() == model.state_dict().keys()
    assert all(torch.equal(kept[key], weight) for key, weight in model.state_dict().items())


@torch.no_grad()
def test_plain_transformers_gives_exactly_the_same_hidden_states(
    tiny_encoder: PretrainedEncoder, trained: Trained, export: Export
) -> None:
    model = trained()
    folder = export(model.state_dict())
    encoder, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModel, AutoTokenizer))
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert dict(inputs)["input_ids"].tolist() == tiny_encoder.tokenizer(TEXTS, padding=True)["input_ids"]
    found = encoder(**inputs, output_hidden_states=True).hidden_states
    expected = model.encoder(**inputs, output_hidden_states=True).hidden_states
    assert all(torch.equal(*states) for states in zip(found, expected, strict=True))


@torch.no_grad()
def test_an_adapter_is_exported_merged_and_as_peft_loads_it(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tiny_corpus: Corpus, export: Export
) -> None:
    config = tiny_config.override({**PALS, "adapter.method": "lora", "adapter.targets": ["query", "output.dense"]})
    model = MultiTaskModel(config, tiny_encoder)
    for parameter in (one for one in model.parameters() if one.requires_grad):
        parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    kept = active_weights(config, config.active_tasks, model.eval().state_dict())
    assert sum(weight.numel() for weight in kept.values()) < sum(one.numel() for one in model.parameters()) / 2
    folder = export(kept, config)
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
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, export: Export
) -> None:
    folder = export(trained().state_dict(), name="deep/model")
    assert {path.name for path in folder.iterdir()} == {*FILES, "tokenizer_config.json", "README.md"}
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
    for name in ("config.json", "tokenizer_config.json", "README.md"):
        assert str(Path(tiny_encoder.name).parent) not in (folder / name).read_text()
    assert TrialConfig.from_json((folder / "trial.json").read_text()) == tiny_config
    assert {name.split(".")[0] for name in load_file(folder / "tasks.safetensors")} == {"heads"}


def test_a_folder_is_new_or_replaced_on_request(
    tmp_path: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, export: Export
) -> None:
    weights = trained().state_dict()
    export(weights)
    message = one_line_error(export, weights)
    assert message.startswith("an exported model's folder must be new, got ")
    export_model(tiny_config, tiny_encoder, weights, tmp_path / "model", FACTS, overwrite=True)
    (tmp_path / "model" / "trial.json").unlink()
    with pytest.raises(ValueError, match=r"may replace an empty folder, or one that holds trial\.json"):
        export_model(tiny_config, tiny_encoder, weights, tmp_path / "model", FACTS, overwrite=True)


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
    tmp_path: Path, tiny_config: TrialConfig, trained: Trained, export: Export
) -> None:
    weights = trained().state_dict()
    less = {name: weight for name, weight in weights.items() if name != "heads.sst.bias"}
    for config, given, fault in (
        (tiny_config, less, "1 weight is missing, first heads.sst.bias"),
        (tiny_config, early(tiny_config, weights), "6 weights are missing, first heads.qqp.bias"),
    ):
        assert one_line_error(export, given, config) == f"the weights must fit the trial's configuration: {fault}"
    assert not list(tmp_path.iterdir())


def early(config: TrialConfig, weights: dict[str, Tensor], *tasks: str) -> dict[str, Tensor]:
    """The weights kept by an epoch in which only these tasks are active so far."""
    return {name: weight.clone() for name, weight in active_weights(config, tasks, weights).items()}


def test_an_early_epoch_is_exported_with_new_weights_for_tasks_not_yet_active(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, trained: Trained, export: Export
) -> None:
    config = tiny_config.override(ALL)
    whole, new = trained(config).state_dict(), MultiTaskModel(config, tiny_encoder).state_dict()
    kept = early(config, whole, "qqp")
    assert {"heads.sst.weight", "heads.sst.bias"} <= whole.keys() - kept.keys()
    found = load_exported(export(kept, config)).model.state_dict()
    assert found.keys() == whole.keys()
    assert all(torch.equal(weight, kept.get(key, new[key])) for key, weight in found.items())


def test_a_failure_during_export_is_one_line_and_leaves_nothing(
    tmp_path: Path, trained: Trained, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = Exception("no space left on device")  # as the tokenizers library does
    monkeypatch.setattr("transformers.PreTrainedTokenizerBase.save_pretrained", Mock(side_effect=error))
    assert one_line_error(export, trained().state_dict()).endswith("model: no space left on device")
    assert not list(tmp_path.iterdir())


def test_a_damaged_or_missing_file_is_one_line(trained: Trained, export: Export) -> None:
    folder = export(trained().state_dict())
    (folder / "tasks.safetensors").write_text("{")
    assert "tasks.safetensors is " in one_line_error(load_exported, folder)
    (folder / "tasks.safetensors").unlink()
    assert one_line_error(load_exported, folder).endswith("which has no tasks.safetensors")
