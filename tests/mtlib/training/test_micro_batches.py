"""Micro-batches are halved until the longest steps of a stage fit a GPU's memory, which a fake error stands for."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.loss.objective import Objective
from mtlib.model.encoder import PretrainedEncoder
from mtlib.training import micro_batches
from mtlib.training.micro_batches import fitting_micro_batches, take_longest_steps, with_micro_batches

CPU, GPU = torch.device("cpu"), torch.device("cuda")
PCGRAD = {
    "stages.1.order": "batch_round_robin",
    "stages.1.sum_losses": True,
    "smart.weight": 0,
    "gradients": "pcgrad",
}
Fit = Callable[..., tuple[int | None, ...]]


@pytest.fixture
def fit(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> Fit:
    """Chooses sizes on a GPU whose memory holds `most` rows of each batch, with batches of 8, 8 and 5 rows."""

    def choose(most: int, error: BaseException | None = None, **changes: Any) -> tuple[int | None, ...]:
        config = tiny_config.override(changes)

        def probe(config: TrialConfig, index: int, *_: Any) -> None:
            if (config.stages[index].micro_batch_size or 8) > most:
                raise error or torch.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(micro_batches, "take_longest_steps", probe)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        return fitting_micro_batches(config, tiny_corpus, tiny_encoder, GPU)

    return choose


@pytest.mark.parametrize(("most", "sizes"), [(8, None), (7, 4), (4, 4), (1, 1)])
def test_the_part_is_halved_until_it_fits(most: int, sizes: int | None, fit: Fit) -> None:
    assert fit(most) == (sizes, sizes)


def test_errors_of_cuda_libraries_count_as_no_memory_and_others_do_not(fit: Fit) -> None:
    assert fit(4, RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")) == (4, 4)
    with pytest.raises(RuntimeError, match="shapes"):
        fit(4, RuntimeError("shapes do not match"))
    with pytest.raises(torch.OutOfMemoryError):
        fit(0)


def test_configured_sizes_stay_and_simcse_has_none(fit: Fit) -> None:
    assert fit(2, **{"stages.0.micro_batch_size": 5}) == (5, 2)
    assert fit(2, **{"simcse.weight": 1, "simcse.tasks": ["sts"]}) == (2, None)


@pytest.mark.parametrize("changes", [{}, PCGRAD])
def test_the_longest_rows_pass_in_parts(
    changes: dict[str, Any],
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, forward = list[tuple[str, int, int]](), Objective.forward

    def watching(self: Objective, batches: Any, places: Any) -> Any:
        seen.extend((batch.task, len(batch.rows), batch.inputs[0].input_ids.shape[1]) for batch in batches)
        return forward(self, batches, places)

    monkeypatch.setattr(Objective, "forward", watching)
    config = with_micro_batches(tiny_config.override(changes), (None, 3))
    take_longest_steps(config, 1, tiny_corpus, tiny_encoder, CPU)
    longest = {
        task: int(tiny_corpus[task, "train"].lengths(config.tasks[task].encoding, config.encoder.max_length).max())
        for task in config.active_tasks
    }
    assert {(task, width) for task, _, width in seen} == set(longest.items())
    assert max(rows for _, rows, _ in seen) == 3
