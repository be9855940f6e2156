"""SimCSE: a text's two dropout views are each other's positives, the batch's other texts are negatives."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtlib.config.penalties import SimcseConfig
from mtlib.data.batches import index_on
from mtlib.loss.clean_pass import CleanPass, autocast
from mtlib.model.dropout import hidden_dropout_set_to
from mtlib.runtime.workers import gather_with_gradient, num_workers


def simcse_penalty(clean: CleanPass, settings: SimcseConfig) -> tuple[Tensor]:
    """Returns the contrastive loss of each row's two dropout views, (rows,);
    one view is the clean pass unless configured."""
    batch, model = clean.batch, clean.model
    assert model.projection is not None, "the contrastive term comes with a projection"
    # Beside its own texts, encoded alone too, a pair would be a negative of them.
    first_text = 1 if clean.config.tasks[batch.task].encoding == "cross_and_bi" else 0
    texts = batch.inputs[first_text:]
    vectors = clean.output.vectors[:, first_text:]  # (rows, texts, hidden)
    with autocast(clean.config, batch.labels.device), hidden_dropout_set_to(model.encoder, settings.dropout):
        first = vectors if settings.dropout is None else model.encode_texts(batch.task, texts)[0]
        views = [model.projection(view) for view in (first, model.encode_texts(batch.task, texts)[0])]
    loss = contrastive_loss(
        *views,
        positions=batch.positions,
        num_rows=batch.num_rows,
        temperature=settings.temperature,
        is_empty=batch.is_empty,
    )
    return (loss,)


def contrastive_loss(
    first: Tensor, second: Tensor, *, positions: np.ndarray, num_rows: int, temperature: float, is_empty: bool
) -> Tensor:
    """-log softmax_j(cos(first_i, second_j) / temperature)[j = i], over all texts j of the global batch.

    Where a row has two texts, each of them is an example of its own, and the row's loss is their mean. The candidates
    are second views only, as in the code of Gao et al. All workers must take this step together, with the gradient.

    Args:
        first, second: (rows, texts, hidden), both views of this worker's rows, of any floating type; every
            num_workers-th row of the global batch, as `make_batch` gives them.
        positions: (rows,), place of each row in the global batch, from 0.
        num_rows: rows of the global batch, at least 1.
        temperature: tau, above 0.
        is_empty: whether this worker's only row is the filler of an empty shard: no candidate, and with a loss of 0.

    Returns:
        (rows,), in nats, fp32 also under mixed precision; 0 where the global batch has a single text.

    Source: Gao et al. 2021, equation 4; My PAL BERT 4.1, which takes a cross-encoded pair as one text. Here each worker
    has the texts of all as candidates, so the number of workers changes nothing; both papers leave this open.
    """
    num_texts = first.shape[1]
    with torch.autocast(first.device.type, enabled=False):
        anchors, own = (functional.normalize(view.float(), dim=2) for view in (first, second))
        candidates = gather_rows(own, num_rows)  # (num_rows, texts, hidden)
        cosines = anchors.flatten(0, 1) @ candidates.flatten(0, 1).T  # (rows * texts, num_rows * texts)
        places = index_on(first.device, positions).unsqueeze(1) * num_texts
        targets = (places + torch.arange(num_texts, device=first.device)).flatten()
        losses = functional.cross_entropy(cosines / temperature, targets, reduction="none")
    return losses.view(-1, num_texts).mean(dim=1) * (0.0 if is_empty else 1.0)


def gather_rows(own: Tensor, num_rows: int) -> Tensor:
    """Returns the global batch's rows in their order, (num_rows, ...), from this worker's every num_workers-th,
    (rows, ...).

    Rows of zeros pad the shards to one length. They and the filler of an empty shard come last and are cut off.
    """
    longest = -(-num_rows // num_workers())
    padding = own.new_zeros(longest - len(own), *own.shape[1:])
    gathered = gather_with_gradient(torch.cat([own, padding]))  # (workers, longest, ...)
    return gathered.transpose(0, 1).flatten(0, 1)[:num_rows]
