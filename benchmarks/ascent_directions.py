"""The directions of SMART's ascent: how near cheaper ones come to that in fp32 over the whole batch.

Command:  python benchmarks/ascent_directions.py --data DIR --encoder NAME [--task sst] [--steps 100] [--batches 8]
Cost:     about 3 minutes on one CPU core with a small encoder (6 layers, 384 wide)
Prints:   for dropout masks of their own, for shared ones and without dropout, the cosine of each row's ascent gradient
          with that in fp32 over the whole batch: the mean over the rows, and their quartiles; and the length of an
          ascent step relative to the noise to which it is added

The model is trained for some steps before. All gradients of a batch have the same noise, at the settings' defaults. "In
bf16" has the same masks too; in "a quarter of the rows" these rows' passes draw masks of their own, as in training.
"Drawn again" is the exact gradient with other masks: no direction can be nearer to the exact one than that, unless it
has its masks. "First half of the layers" climbs the squared distance of the texts' vectors after these layers.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.two_checkouts import quartiles
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.loss.clean_pass import CleanPass, clean_pass
from mtlib.loss.smart import ascent_gradients, climbed_pass, first_noise
from mtlib.model.dropout import restore_random_state
from mtlib.model.encoder import load_encoder
from mtlib.model.layers import find_layers
from mtlib.stages.sampler import Step, epoch_steps
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.run import Run
from mtlib.training.step import batch_place, shard_of, take_step

SHARE = 4
"""One of so many rows is among "a quarter of the rows"."""
MASK_SEED, OTHER_SEED = 1, 2

Ascent = tuple[np.ndarray, Sequence[Tensor]]
"""Places of rows in a batch, and their gradients: (rows, tokens, hidden) for each input."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder in the CS224N layout")
    parser.add_argument("--encoder", required=True, help="hub name or folder")
    parser.add_argument("--task", choices=TASKS, default="sst")
    parser.add_argument("--steps", type=int, default=100, help="of training before (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{options.encoder}, {options.task} of {options.data}, after {options.steps} steps, {options.batches} batches\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        run = begin(options, Path(folder))
        steps = iter(epoch_steps(run.config, 0, 0, run.lengths, run.own_rows))
        for _ in range(options.steps):
            take_step(run, next(steps))
        measured = [next(steps) for _ in range(options.batches)]
        for masks in ("independent", "shared"):
            report(run, masks, measured)
        for module in run.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        report(run, "no", measured)


def begin(options: argparse.Namespace, folder: Path) -> Run:
    """A trial with SMART at its beginning."""
    stage = StageConfig(tasks=(options.task,), steps_per_epoch=100_000)
    config = TrialConfig(stages=(stage,)).override({"smart.weight": 1.0, "smart.tasks": (options.task,)})
    encoder = load_encoder(options.encoder)
    corpus = tokenize(read_data(config, options.data), encoder.tokenizer, folder)
    return prepare_run(config, corpus, encoder, torch.device("cpu"), lambda objective: objective, None)


def report(run: Run, masks: str, steps: Sequence[Step]) -> None:
    """Prints the cosines with one kind of masks."""
    config = run.config.override({"smart.masks": "independent" if masks == "no" else masks})
    rounded = config.override({"precision": "bf16"})
    ways: dict[str, Callable[[Step], Ascent]] = {
        "in bf16": lambda step: ascent_of(clean_of(run, rounded, step)),
        "a quarter of the rows": lambda step: ascent_of_some(clean_of(run, config, step)),
        "first half of the layers": lambda step: ascent_of_layers(run, config, step),
    }
    if masks == "independent":
        ways["drawn again"] = lambda step: ascent_of(clean_of(run, config, step), OTHER_SEED)
    print(f"{masks} masks{'cosine':>24}   quartiles")
    found: dict[str, list[float]] = {name: [] for name in ways}
    lengths = []
    for step in steps:
        clean = clean_of(run, config, step)
        exact = ascent_of(clean)
        lengths.append(relative_length(clean, exact))
        for name, way in ways.items():
            found[name] += cosines(exact, way(step))
    for name, values in found.items():
        low, _, high = quartiles(values)
        print(f"{name:30} {np.mean(values):10.3f}   {low:.3f} to {high:.3f}")
    print(f"an ascent step is {100 * np.mean(lengths):.2g} % as long as its noise\n")


def clean_of(run: Run, config: TrialConfig, step: Step) -> CleanPass:
    """The clean pass of a step's only batch, always with the same masks."""
    torch.manual_seed(0)
    (part,) = step
    return clean_pass(
        config, run.model, None, shard_of(run.config, run.corpus, part), batch_place(run, part), keep=True
    )


def ascent_of(clean: CleanPass, seed: int = MASK_SEED) -> Ascent:
    """The gradients of the first ascent step, with masks of this seed unless they are shared."""
    torch.manual_seed(seed)
    held, moved = climbed_pass(clean, clean.config.smart)
    return np.arange(len(clean.batch.rows)), ascent_gradients(clean.kind, held, noise_of(clean), moved)


def ascent_of_some(clean: CleanPass) -> Ascent:
    """As `ascent_of`, by passes of some rows alone."""
    places = np.arange(0, len(clean.batch.rows), SHARE)
    part = clean.some_rows(places)
    torch.manual_seed(OTHER_SEED)
    return places, ascent_of(part.again() if clean.config.smart.masks == "shared" else part)[1]


def ascent_of_layers(run: Run, config: TrialConfig, step: Step) -> Ascent:
    """As `ascent_of`, of the squared distance of the texts' vectors after the first half of the layers."""
    with first_half(run.model.encoder):
        clean = clean_of(run, config, step)

        def moved(noise: Sequence[Tensor]) -> Tensor:
            if config.smart.masks == "shared":
                restore_random_state(run.device, clean.random_state)
            texts = [text + part for text, part in zip(clean.output.embeddings, noise, strict=True)]
            vectors: Tensor = run.model(clean.batch, embeddings=texts).vectors
            return vectors.flatten(1)

        torch.manual_seed(MASK_SEED)
        held = clean.output.vectors.flatten(1)
        return np.arange(len(held)), ascent_gradients("regression", held, noise_of(clean), moved)


@contextmanager
def first_half(encoder: nn.Module) -> Iterator[None]:
    """Leaves out the second half of an encoder's layers while the context lasts."""
    path, layers = find_layers(encoder, "this benchmark")
    parent, _, name = path.rpartition(".")
    setattr(encoder.get_submodule(parent), name, layers[: len(layers) // 2])
    try:
        yield
    finally:
        setattr(encoder.get_submodule(parent), name, layers)


def noise_of(clean: CleanPass) -> list[Tensor]:
    """The noise before the ascent, (rows, tokens, hidden) for each input."""
    drawn = first_noise(clean.batch, clean.output.embeddings, clean.place.noise_seed)
    pairs = zip(drawn, clean.batch.inputs, strict=True)
    return [clean.config.smart.noise_std * noise * inputs.attention_mask.unsqueeze(2) for noise, inputs in pairs]


def cosines(exact: Ascent, found: Ascent) -> list[float]:
    """The cosine of each row's gradients, of all its inputs together."""
    places, parts = found
    pairs = [(whole[places].flatten(1), part.flatten(1)) for whole, part in zip(exact[1], parts, strict=True)]
    one, other = (torch.cat(side, dim=1) for side in zip(*pairs, strict=True))
    cosine: list[float] = functional.cosine_similarity(one, other, dim=1, eps=0).tolist()
    return cosine


def relative_length(clean: CleanPass, exact: Ascent) -> float:
    """The length of an ascent step relative to that of its noise, over all rows."""
    step, noise = (torch.cat([part.flatten() for part in side]).norm() for side in (exact[1], noise_of(clean)))
    return float(clean.config.smart.step_size * step / noise)


if __name__ == "__main__":
    main()
