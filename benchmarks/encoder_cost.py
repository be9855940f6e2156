"""Time and memory of a step by shape of encoder, with random weights, each in a process of its own.

    python benchmarks/encoder_cost.py

A step is a forward and backward pass of 16 rows of 32 tokens and an update by AdamW, in fp32 on one thread; the fastest
of six counts.
"""

import multiprocessing
import resource
import time
from typing import Any

from transformers import AutoModel, BertConfig, DebertaV2Config, ElectraConfig, ModernBertConfig, RobertaConfig

MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
DEBERTA: dict[str, Any] = {
    **{"vocab_size": 128100, "hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072},
    **{"relative_attention": True, "position_buckets": 256, "max_relative_positions": -1, "type_vocab_size": 0},
    **{"pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "share_att_key": True},
}
SHAPES: dict[str, Any] = {
    "bert-base": BertConfig(),
    "MiniLM-L6": BertConfig(**MINILM),
    "electra-small": ElectraConfig(),
    "roberta-base": RobertaConfig(vocab_size=50265, max_position_embeddings=514),
    "ModernBERT-base": ModernBertConfig(),
    "deberta-v3-base": DebertaV2Config(**DEBERTA),
}


def cost(name: str) -> tuple[float, float, float]:
    """Millions of parameters, the seconds of a step, and the most memory of the process in GB."""
    import torch

    torch.set_num_threads(1)
    model = AutoModel.from_config(SHAPES[name]).train()
    optimizer, seconds = torch.optim.AdamW(model.parameters(), lr=1e-5), []
    tokens = torch.randint(1000, 5000, (16, 32))
    for _ in range(6):
        started = time.perf_counter()
        states = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state
        states[:, 0].square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - started)
    size = sum(parameter.numel() for parameter in model.parameters())
    return size / 1e6, min(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    first = None
    for shape in SHAPES:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            millions, step, memory = pool.apply(cost, (shape,))
        first = first or step
        print(
            f"{shape:16} {millions:4.0f} million {1000 * step:6.0f} ms ({step / first:.2f}) {memory:.1f} GB", flush=True
        )
