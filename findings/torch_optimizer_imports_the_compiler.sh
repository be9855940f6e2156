#!/usr/bin/env bash
# torch: making an optimizer imports the compiler, which takes longer than torch itself.
#
# Versions: torch 2.13.0 (CPU build), Python 3.11.
# Expectation: a program that never calls `torch.compile` never loads its machinery. `torch.optim.AdamW` holds two
#   numbers a parameter; making one takes milliseconds.
# Behaviour: the first optimizer that a process makes imports `torch._dynamo`, sympy and about 800 modules more: methods
#   of `Optimizer` switch the compiler off for themselves, and load it to do so. That takes as much processor time as
#   `import torch`, in each worker of each training, between the loaded model and the first step. `TORCHDYNAMO_DISABLE=1`
#   and `TORCH_COMPILE_DISABLE=1` do not change it.
# Seen: "import torch 1.2 s", "AdamW 1.2 s, 823 modules, torch._dynamo True, sympy True", the same with the variables.
# Who meets it: whoever starts many short trainings in new processes, and looks for the seconds before the first step.
# Exit code: 0 while this is so, 1 once an optimizer is made without the compiler.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet torch==2.13.0 numpy==2.4.6
cat > make_optimizer.py <<'PYTHON'
import sys
import time

began = time.process_time()
import torch

print(f"import torch {time.process_time() - began:.1f} s")
weights, loaded = [torch.nn.Parameter(torch.zeros(2))], len(sys.modules)
assert "torch._dynamo" not in sys.modules
began = time.process_time()
torch.optim.AdamW(weights)
seconds, found = time.process_time() - began, [name in sys.modules for name in ("torch._dynamo", "sympy")]
print(f"AdamW {seconds:.1f} s, {len(sys.modules) - loaded} modules, torch._dynamo {found[0]}, sympy {found[1]}")
sys.exit(not (found[0] and len(sys.modules) - loaded > 400))
PYTHON
environment/bin/python make_optimizer.py
TORCHDYNAMO_DISABLE=1 TORCH_COMPILE_DISABLE=1 environment/bin/python make_optimizer.py
