#!/usr/bin/env bash
# torch: clipping a gradient with one infinite entry stops every other weight, and gives that one NaN.
#
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Expectation: `clip_grad_norm_(parameters, 1.0)` bounds the step: after it the gradient has norm 1 at most, so that an
#   overflow in one entry does no harm; or it raises, as the norm is no number to divide by.
# Behaviour: it returns infinity and goes on. Each gradient is multiplied by 1 / infinity: all finite ones become exactly
#   0, the infinite one becomes NaN. The optimizer then leaves every weight of the model where it is but one, which is
#   NaN from now on. Without clipping, AdamW would at least have moved the others. `error_if_nonfinite=True` raises.
# Seen: "norm inf, gradients [0.0, 0.0] [0.0, nan]", "moved: 0 of 3 others; NaN: 1", "unclipped, moved: 3 of 3 others".
# Who meets it: whoever clips against overflows, in fp16 above all, and looks at the loss alone: it is finite until the
#   next step.
# Exit code: 0 while this is so, 1 once clipping bounds such a step or raises.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet torch==2.13.0 numpy==2.4.6
cat > clip.py <<'PYTHON'
import sys

import torch


def step(clips):
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = torch.optim.AdamW(weights, lr=0.1, weight_decay=0.0)
    weights[0].grad, weights[1].grad = torch.tensor([1.0, 2.0]), torch.tensor([3.0, float("inf")])
    norm = torch.nn.utils.clip_grad_norm_(weights, 1.0) if clips else None
    gradients = [weight.grad.tolist() for weight in weights]
    optimizer.step()
    values = torch.cat(weights).detach()
    return norm, gradients, int((values[:3] != 1).sum()), int(values.isnan().sum())


norm, gradients, moved, num_nan = step(clips=True)
print(f"norm {norm:g}, gradients {gradients[0]} {gradients[1]}")
print(f"moved: {moved} of 3 others; NaN: {num_nan}")
_, _, plain, _ = step(clips=False)
print(f"unclipped, moved: {plain} of 3 others")
sys.exit(0 if (moved, num_nan, plain) == (0, 1, 3) else 1)
PYTHON
environment/bin/python clip.py
