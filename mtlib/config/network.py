"""Settings of the network: the encoder that all tasks share, and the layers and head of each task.

Sources: BB is BERT and Beyond, TT Triple Threat, TU Tuning Up BERT, MP My PAL BERT.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtlib.config.heads import HEADS, CosineHeadSettings, Head, LinearHeadSettings
from mtlib.config.losses import LOSSES, Loss, losses_for
from mtlib.config.schema import check_types, fields_of, settings_of, with_fields
from mtlib.runtime.errors import require, require_once
from mtlib.tasks import Task

Encoding = Literal["single", "cross", "cross_no_separator", "bi", "cross_and_bi"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The pretrained text encoder that all tasks share."""

    name: str = "bert-base-uncased"
    """Any bidirectional `AutoModel`, not a decoder: a hub name or a local folder."""
    dropout: float | None = 0.3
    """Dropout probability of hidden states and of the pooled text before a head, 0 <= p < 1. None keeps the
    encoder's own. Source: BB 4.3, TT 3, TU 5.2, MP 5.3 use .3."""
    attention_dropout: float | None = None
    """Dropout probability of attention weights, 0 <= p < 1. None keeps the encoder's own."""
    max_length: int = 128
    """Longest input in word pieces, special tokens included, at least 8; longer pairs lose their longer text's end.
    Source: MP 5.3."""
    trained_layers: tuple[int, ...] | None = None
    """Which layers are trained, from 0. None: the whole encoder, embeddings included. Empty: none, the encoder is
    frozen (BB table 3). One number: that layer alone (TT table 5). Embeddings are frozen unless it is None."""
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2"] = "auto"
    """The attention of `transformers`, in its own layers. `flash_attention_2` needs the package `flash-attn`, a GPU and
    bf16; predictions are made without it. `auto`: this project's layers, which use kernels of PyTorch, for BERT and its
    relatives, and what `transformers` prefers for others."""
    gradient_checkpointing: bool = False
    """Whether layers keep their inputs alone and compute the rest again in the backward pass, with the same dropout
    masks: less memory, and about a third more time. It uses the layers of `transformers`. Source: Chen et al. 2016."""
    start_from: str | None = None
    """Weights to start from in place of the pretrained ones: the checkpoint folder of an earlier trial, an exported
    model's folder, or a `.safetensors` file of either. None: the pretrained ones. Source: TU table 4."""
    start_epoch: str = "overall"
    """Which of a checkpoint folder's weights: those of the best epoch `overall`, or of the best one of a task."""
    start_heads: bool = False
    """Whether heads, and all else that is not the encoder, start from there too where names and shapes fit."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            require(value is None or 0 <= value < 1, f"encoder.{name} must be at least 0 and below 1", value)
        require(self.max_length >= 8, "encoder.max_length must be at least 8", self.max_length)
        require(bool(self.name), "encoder.name must be a hub name or a folder", repr(self.name))
        require(self.start_from != "", "encoder.start_from must be a folder or a file", repr(self.start_from))
        has_heads = self.start_from is not None or not self.start_heads
        require(has_heads, "encoder.start_heads must be false without encoder.start_from", self.start_heads)
        check_layers("encoder.trained_layers", self.trained_layers or ())


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """Low-rank adapters of the encoder: its own weights stay as they are, and small matrices beside them are trained.

    Heads, PALs and all else outside the encoder are trained in full. Needs the package `peft`.
    """

    method: Literal["none", "lora"] = "none"
    """`none`: the encoder's weights are trained. `lora`: W x + alpha / rank B A x in place of W x, where W is frozen.
    A starts at random and B at 0, so that the first step sees the pretrained model. Layer rates apply to A and B by
    their layer, weight decay as to other matrices. Source: Hu et al. 2022."""
    rank: int = 8
    """Rows of A and columns of B, at least 1. Source: Hu et al. 2022, table 9."""
    alpha: int = 16
    """Above 0; alpha / rank scales B A. Source: Hu et al. 2022, table 9 uses 8 and 16."""
    dropout: float = 0.0
    """Dropout probability of x before A, 0 <= p < 1."""
    targets: tuple[str, ...] = ()
    """The linear layers of the encoder that get A and B, by the last words of their paths, such as
    `attention.output.dense`. Empty: those that make queries and values, which families name differently
    (Hu et al. 2022, 7.1)."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.rank >= 1, "adapter.rank must be at least 1", self.rank)
        require(self.alpha > 0, "adapter.alpha must be above 0", self.alpha)
        require(0 <= self.dropout < 1, "adapter.dropout must be at least 0 and below 1", self.dropout)
        require_once(self.targets, "adapter.targets must not name a layer twice")


@dataclass(frozen=True, kw_only=True)
class PalsConfig:
    """Projected attention layers: a small module per task beside every layer (Stickland and Murray 2019)."""

    size: int = 0
    """Width of the projection, 0 for none; `num_heads` must divide it. Source: MP 4.1 uses 204."""
    num_heads: int = 12
    """Attention heads of each module, at least 1. Source: MP 4.1."""
    tasks: tuple[str, ...] = ()
    """Tasks that have modules of their own."""
    placement: Literal["attention", "layer"] = "attention"
    """`attention`: LN(h + SA(h) + TS(h)), inside the attention block's LayerNorm (MP 4.1). `layer`:
    LN(a + FFN(a) + TS(h)), beside the whole layer (Stickland and Murray's code)."""
    function: Literal["attention", "identity", "low_rank"] = "attention"
    """g in TS(h) = V_D g(V_E h), V_E and V_D shared by all layers: multi-head `attention`, or the `identity`, low-rank
    layers by their formula (Stickland and Murray 2019, 3.1). `low_rank`: low-rank layers by their code (size 100,
    placement `layer`): V_E and V_D of each layer its own, with biases and a gelu between; 12 times as many."""
    zero_start: bool = False
    """True: V_D starts at 0, so that the first step sees the pretrained model. False: at N(0, .02) like the rest."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.size >= 0, "pals.size must be at least 0", self.size)
        require(self.num_heads >= 1, "pals.num_heads must be at least 1", self.num_heads)
        divides = self.size % self.num_heads == 0 or self.function != "attention"
        require(divides, f"pals.size must be a multiple of pals.num_heads ({self.num_heads})", self.size)
        require_once(self.tasks, "pals.tasks must not name a task twice")
        rule = "pals.tasks must name at least one task where pals.size is above 0"
        require(self.size == 0 or bool(self.tasks), rule, list(self.tasks))


@dataclass(frozen=True, kw_only=True)
@with_fields(fields_of(loss.settings for loss in LOSSES.values()))
@with_fields(fields_of(head.settings for head in HEADS.values()))
class TaskConfig:
    """How one task is encoded, read, batched and weighted; the settings of all losses and heads are fields too."""

    losses: ClassVar[Mapping[str, Loss]] = LOSSES
    """The table that `loss` names an entry of."""
    heads: ClassVar[Mapping[str, Head]] = HEADS
    """The table that `head` names an entry of."""
    batch_size: int = 16
    """Examples per batch over all workers, at least 1; all train rows where there are fewer. Source: TT 3 and TU 5.2
    use 16; BB table 5 searches it."""
    loss: Annotated[str, tuple(LOSSES)]
    """A loss that suits the task's kind. Whatever it is, the metrics of a regression are computed on
    predictions clipped to the range of the labels."""
    encoding: Encoding
    """`single` for one text; for pairs `cross` (both in one input with a separator and real segment ids),
    `cross_no_separator` (both in one input as if one text; TT table 2), `bi` (each encoded alone) or `cross_and_bi`
    (both: the head reads the pair, and a comparison of its texts). Source: BB table 1; the last is no paper's."""
    prefix: str = ""
    """Put before each text, both of a pair, before it is cut into word pieces; blanks at its end count. Source: Wang et
    al. 2022 (E5): `query: `."""
    pooling: Literal["cls", "mean", "last"] = "cls"
    """The vector of a text: the state of its first token (XLNet: its last, where its tokenizer puts [CLS]), the `mean`
    over its tokens without padding, or the state of its `last` token, as decoders are read."""
    head: Annotated[str, tuple(HEADS)] = "linear"
    """What makes logits of the vectors of a row's texts."""
    if TYPE_CHECKING:  # settings of heads that typed code reads; `HEADS` declares all
        hidden_units: int | None = LinearHeadSettings.hidden_units
        cosine_projection: bool = CosineHeadSettings.cosine_projection
    target_scale: Literal["raw", "unit"] = "raw"
    """Says how the labels of a regression are scaled for the loss and the penalties. `raw`: not at all, as in the
    papers. `unit`: to mean 0 and standard deviation 1 of train; predictions are in the labels' own scale again. The
    default of tasks that a `tasks.toml` defines is `unit`: a loss on raw labels of 0 to 5 starves the other tasks,
    which share Adam's moments."""
    class_weights: Literal["balanced"] | tuple[float, ...] | None = None
    """Factors of the loss of rows by their class, for training alone: dev is scored without. `balanced`: in inverse
    proportion to how often the class occurs in train, as in scikit-learn. A list: one for each class; of several labels
    one for each label where a row has it. None: 1. Probabilities grow with a class's weight, and so do predictions of
    it."""
    loss_weight: float = 1.0
    """Factor of this task's loss with its SMART, proximal and SimCSE terms, above 0. Source: TT table 9 searches it."""
    probability_factor: float = 1.0
    """Factor of this task's probability where an order draws tasks at random, above 0; ignored elsewhere. Source: MP
    5.3."""
    chosen_layers: tuple[int, ...] = ()
    """Layers, from 0, whose rate is scaled by `optimizer.chosen_scale` in this task's steps, the others' by
    `optimizer.other_scale`. Source: TT 4.5."""
    probe_rows: int = 0
    """Train rows to which the task's head is fitted, with the encoder frozen, before the first step that trains it
    (linear probing, then fine-tuning); all of them where there are fewer. With less than 10 rows the head starts from
    random weights, as cosine heads always do. Heads that `encoder.start_heads` loads stay. Source: Kumar et al.
    2022."""
    scored_train_rows: int = 0
    """How many fixed rows of train are scored in evaluation mode beside dev each epoch; 0 for none. Source: BB table 6
    prints SST train."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.batch_size >= 1, "batch_size must be at least 1", self.batch_size)
        for settings in (method.settings for table in (self.losses, self.heads) for method in table.values()):
            settings_of(settings, self)  # checks their ranges
        weights = self.class_weights if isinstance(self.class_weights, tuple) else ()
        require(all(weight > 0 for weight in weights), "class_weights must be above 0", list(weights))
        require(self.loss_weight > 0, "loss_weight must be above 0", self.loss_weight)
        require(self.probability_factor > 0, "probability_factor must be above 0", self.probability_factor)
        require(self.probe_rows >= 0, "probe_rows must be at least 0", self.probe_rows)
        require(self.scored_train_rows >= 0, "scored_train_rows must be at least 0", self.scored_train_rows)
        check_layers("chosen_layers", self.chosen_layers)
        head, allowed = self.head_entry, self.head_entry.encodings
        is_read = not allowed or self.encoding in allowed
        require(is_read, f"head {self.head} must have encoding {' or '.join(allowed)}", self.encoding)
        has_units = self.hidden_units is not None and self.head != "linear"
        require(not has_units, f"head {self.head} must have hidden_units none", self.hidden_units)
        if head.is_one_number:
            losses = [name for name, loss in self.losses.items() if loss.fits_cosine]
            require(self.loss in losses, f"head {self.head} must have loss {' or '.join(losses)}", self.loss)

    @property
    def head_entry(self) -> Head:
        """The entry of the task's head."""
        return self.heads[self.head]

    @property
    def loss_entry(self) -> Loss:
        """The entry of the task's loss."""
        return self.losses[self.loss]


def check_layers(name: str, layers: tuple[int, ...]) -> None:
    """Checks a list of layer numbers; that the encoder has them is checked once it is known."""
    require(all(layer >= 0 for layer in layers), f"{name} must be layer numbers from 0", list(layers))
    require_once(layers, f"{name} must not name a layer twice")


def check_task(task: Task, config: TaskConfig) -> None:
    """Checks that loss, encoding and head fit a task."""
    name, losses = task.name, losses_for(task.kind, config.losses)
    require(config.loss in losses, f"tasks.{name}.loss must be one of {', '.join(losses)}", config.loss)
    rule = f"tasks.{name}.class_weights must be none for a regression"
    require(config.class_weights is None or not task.is_regression, rule, config.class_weights)
    if isinstance(config.class_weights, tuple):
        rule = f"tasks.{name}.class_weights must be a number for each of {task.num_classes} classes"
        require(len(config.class_weights) == task.num_classes, rule, list(config.class_weights))
    is_enough = not config.head_entry.is_one_number or task.num_logits == 1
    rule = f"tasks.{name}.head must not be {config.head} for kind {task.kind}, which needs"
    require(is_enough, rule, f"{task.num_logits} numbers")
    encodings = ("cross", "cross_no_separator", "bi", "cross_and_bi") if task.is_pair else ("single",)
    rule = f"tasks.{name}.target_scale must be raw unless the task is a regression"
    require(config.target_scale == "raw" or task.is_regression, rule, config.target_scale)
    rule = f"tasks.{name}.encoding must be one of {', '.join(encodings)}"
    require(config.encoding in encodings, rule, config.encoding)
