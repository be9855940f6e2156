"""Task heads, from pooled texts to logits, and the shared relational layer before them."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mtlib.config.network import TaskConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import SIDES
from mtlib.runtime.lazy_functions import load_function
from mtlib.runtime.seeds import torch_stream
from mtlib.tasks import Task

INITIAL_STD = 0.02
"""Standard deviation of new weights. Source: Devlin et al. 2019."""


class LinearHead(nn.Module):
    """A linear layer on the concatenated vectors, after an optional ReLU layer.

    Args:
        output: provides `weight` and `bias`.
        hidden: the linear map of the ReLU layer.
        is_difference: whether the logit is the second of two outputs minus the first: softmax cross entropy on the two
            is binary cross entropy on their difference.
    """

    def __init__(self, output: nn.Linear, hidden: nn.Linear | None, is_difference: bool) -> None:
        super().__init__()
        self.weight, self.bias = output.weight, output.bias
        self.hidden = hidden
        self.is_difference = is_difference

    def forward(self, vectors: tuple[Tensor, ...]) -> Tensor:
        """Logits (rows, num_logits) from one (rows, width) vector per input."""
        return self.logits_of(self.features_of(vectors), self.weight, self.bias)

    def features_of(self, vectors: tuple[Tensor, ...]) -> Tensor:
        """Returns what the output layer reads, (rows, features)."""
        joined = torch.cat(vectors, dim=1)
        return joined if self.hidden is None else functional.relu(self.hidden(joined))

    def logits_of(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Logits (rows, num_logits) by an output layer: `weight` (outputs, features) and `bias` (outputs,)."""
        outputs = functional.linear(features, weight, bias)
        return outputs[:, 1:] - outputs[:, :1] if self.is_difference else outputs


def compare_texts(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """|u - v| and u * v, element by element, of the vectors of two texts, (rows, hidden) each, in fp32.

    Both are scaled to length width**.25 first, so that the elements of u * v sum to sqrt(width) times their cosine:
    with any encoder, new weights are then neither a loud noise nor too slow to learn it
    (docs/measurements/training_settings.md). Source: Tai et al. 2015, 4.2, without scaling.
    """
    texts = (functional.normalize(text.float(), dim=1) for text in (first, second))
    one, other = (text * text.shape[1] ** 0.25 for text in texts)
    return (one - other).abs(), one * other


class CosineHead(nn.Module):
    """The cosine of two vectors, after an optional linear layer on both, in fp32, rescaled from -1..1 to low..high."""

    def __init__(self, projection: nn.Linear | None, low: float, high: float) -> None:
        super().__init__()
        self.projection = projection
        self.low, self.high = low, high

    def forward(self, vectors: tuple[Tensor, ...]) -> Tensor:
        """Logits (rows, 1) from two (rows, hidden) vectors."""
        first, second = vectors if self.projection is None else map(self.projection, vectors)
        cosine = functional.cosine_similarity(first.float(), second.float(), dim=1).unsqueeze(1)
        if (self.low, self.high) == (-1, 1):
            return cosine
        return self.low + (self.high - self.low) * (1 + cosine) / 2


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """What a head is made for."""

    task: Task
    settings: TaskConfig
    """The task's settings, with the head's."""
    hidden_size: int
    """Width of each vector."""
    num_inputs: int
    """Vectors of a row; the relational layer joins them, and a head gets them as one."""
    stream: tuple[int | str, ...]
    """Name of the random stream of the head's weights."""

    @property
    def width(self) -> int:
        """Width of all vectors of a row joined."""
        return self.hidden_size * self.num_inputs

    def linear(self, inputs: int, outputs: int, *part: str) -> nn.Linear:
        """Returns a new linear layer, N(0, .02) from a stream of its own, bias 0;
        `part` tells several of a head apart."""
        return new_linear(inputs, outputs, *self.stream, *part)


def make_head(config: TrialConfig, task: str, hidden_size: int) -> nn.Module:
    """Returns a task's head, called with one vector per input, or a single one after the relational layer.

    It maps a tuple of (rows, width) to (rows, `Task.num_logits`).
    """
    settings = config.tasks[task]
    shape = HeadShape(
        task=config.task(task),
        settings=settings,
        hidden_size=hidden_size,
        num_inputs=len(SIDES[settings.encoding]),
        stream=new_stream(config, "head", task),
    )
    head: nn.Module = load_function(settings.head_entry.function)(shape)
    return head


def linear_head(shape: HeadShape) -> LinearHead:
    """Returns a linear layer on the joined vectors. Source:
    Tuning up BERT 4.2 (two logits), Triple Threat 4.6 (ReLU layer)."""
    units, task = shape.settings.hidden_units, shape.task
    hidden = None if units is None else shape.linear(shape.width, units, "hidden")
    num_outputs = shape.settings.loss_entry.num_outputs(task.kind, task.num_logits)
    output = shape.linear(units or shape.width, num_outputs)
    return LinearHead(output, hidden, is_difference=num_outputs > task.num_logits)


def cosine_head(shape: HeadShape) -> CosineHead:
    """Returns the cosine of two vectors.

    Source: BERT and Beyond 3.2, Tuning up BERT 4.2. For regression Tuning up BERT scales the cosine to 0..5; BERT and
    Beyond does not say.
    """
    low, high = shape.task.label_range if shape.task.is_regression else (-1.0, 1.0)
    size = shape.hidden_size
    return CosineHead(shape.linear(size, size) if shape.settings.cosine_projection else None, low, high)


def make_relational(config: TrialConfig, hidden_size: int) -> nn.Linear | None:
    """Returns the linear layer that active tasks among `relational_tasks` share before their heads;
    None where none is active.

    Source: My PAL BERT 4.1, which gives no width; here it keeps that of the vectors.
    """
    tasks = [task for task in config.relational_tasks if task in config.active_tasks]
    if not tasks:
        return None
    width = hidden_size * len(SIDES[config.tasks[tasks[0]].encoding])
    return new_linear(width, width, *new_stream(config, "relational"))


def make_projection(config: TrialConfig, hidden_size: int) -> nn.Module | None:
    """Returns the projection of pooled texts (..., hidden) for the contrastive term; None without the term.

    Source: Gao et al. 2021 (linear and tanh), My PAL BERT 4.1 (linear).
    """
    settings = config.simcse
    if settings.weight == 0:
        return None
    if settings.projection == "none":
        return nn.Identity()
    linear = new_linear(hidden_size, hidden_size, *new_stream(config, "projection"))
    return nn.Sequential(linear, nn.Tanh()) if settings.projection == "mlp" else linear


def new_stream(config: TrialConfig, *purpose: str) -> tuple[int | str, ...]:
    """Name of the random stream of new weights.

    It differs for trials that start from another trial's weights: with the same seed that trial began with the same new
    weights, and its encoder was trained with them.
    """
    again = () if config.encoder.start_from is None else ("started",)
    return (config.seed, config.replicate, *purpose, *again)


def new_linear(inputs: int, outputs: int, *stream: int | str, bias: bool = True) -> nn.Linear:
    """Returns a linear layer whose weights are N(0, .02) from the stream of that name; its bias, if any, is 0."""
    # Created on the meta device, so that nothing is drawn from the global stream.
    linear = nn.Linear(inputs, outputs, bias=bias, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        linear.weight.normal_(0.0, INITIAL_STD, generator=torch_stream(*stream))
        if linear.bias is not None:
            linear.bias.zero_()
    return linear
