"""Tiny configurations of many architectures: encoders, decoders, encoder-decoders, and models of other inputs."""

from typing import Any

import torch
import transformers
from transformers import (
    CONFIG_MAPPING,
    AlbertConfig,
    AutoModel,
    BartConfig,
    BertConfig,
    BertGenerationConfig,
    BigBirdConfig,
    CamembertConfig,
    ConvBertConfig,
    DebertaConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    EuroBertConfig,
    FlaubertConfig,
    FunnelConfig,
    Gemma3TextConfig,
    GPT2Config,
    IBertConfig,
    LayoutLMConfig,
    LlamaConfig,
    LongformerConfig,
    MambaConfig,
    MobileBertConfig,
    ModernBertConfig,
    MPNetConfig,
    PerceiverConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    ReformerConfig,
    RobertaConfig,
    SqueezeBertConfig,
    T5Config,
    ViTConfig,
    XLMConfig,
    XLMRobertaConfig,
    XLNetConfig,
)

from mtlib.model.encoder import PretrainedEncoder, describe_model

VOCABULARY = {"vocab_size": 60}
SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SMALL: dict[str, Any] = {**VOCABULARY, **SHAPE, "max_position_embeddings": 48, "pad_token_id": 0}
ENDS = {"bos_token_id": 2, "eos_token_id": 3}
SPECIAL = {**ENDS, "cls_token_id": 2, "sep_token_id": 3}
GPT: dict[str, Any] = {**VOCABULARY, **ENDS, "n_positions": 48, "n_embd": 16, "n_layer": 2, "n_head": 2}
XLM: dict[str, Any] = {**VOCABULARY, "emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 48}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
LAYERS_OF_BOTH = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
HEADS_OF_BOTH = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "d_model": 16}
DIVIDED = {"num_key_value_heads": 1}

ENCODERS: dict[str, Any] = {
    "albert": AlbertConfig(**SMALL, **ENDS, embedding_size=8),
    "bert": BertConfig(**SMALL),
    "bert-generation": BertGenerationConfig(**SMALL, **ENDS),
    "big_bird": BigBirdConfig(**SMALL, **ENDS),
    "camembert": CamembertConfig(**SMALL, **ENDS),
    "convbert": ConvBertConfig(**SMALL, **ENDS, embedding_size=16),
    "deberta": DebertaConfig(**SMALL, **DISENTANGLED),
    "deberta-v2": DebertaV2Config(**SMALL, **DISENTANGLED, position_buckets=8, norm_rel_ebd="layer_norm"),
    "distilbert": DistilBertConfig(
        **VOCABULARY, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=48
    ),
    "electra": ElectraConfig(**SMALL, embedding_size=8),
    "eurobert": EuroBertConfig(**SMALL, **ENDS, **DIVIDED),
    "flaubert": FlaubertConfig(**XLM, pad_index=0),
    "funnel": FunnelConfig(
        **VOCABULARY,
        **{"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32, "num_decoder_layers": 1},
        block_sizes=[1, 1],
        block_repeats=[1, 1],
        architectures=["FunnelModel"],
    ),
    "gemma3, both ways": Gemma3TextConfig(**SMALL, **ENDS, **DIVIDED, head_dim=8, use_bidirectional_attention=True),
    "ibert": IBertConfig(**SMALL, **ENDS),
    "layoutlm": LayoutLMConfig(**SMALL),
    "longformer": LongformerConfig(**SMALL, **ENDS, attention_window=8),
    "mobilebert": MobileBertConfig(**SMALL, intra_bottleneck_size=8, embedding_size=8),
    "modernbert": ModernBertConfig(**SMALL, **SPECIAL),
    "mpnet": MPNetConfig(**SMALL, **ENDS),
    "qwen2": Qwen2Config(**SMALL, **ENDS, **DIVIDED, is_causal=False),
    "roberta": RobertaConfig(**SMALL, **ENDS),
    "squeezebert": SqueezeBertConfig(**SMALL, embedding_size=16),
    "xlm": XLMConfig(**XLM, pad_index=0),
    "xlm-roberta": XLMRobertaConfig(**SMALL, **ENDS),
    "xlnet": XLNetConfig(**VOCABULARY, **ENDS, d_model=16, n_layer=2, n_head=2, d_inner=32, pad_token_id=0),
}
if hasattr(transformers, "GteConfig"):  # the lowest version that is allowed lacks it
    ENCODERS["gte"] = transformers.GteConfig(**SMALL, **ENDS)
"""Bidirectional encoders."""
NOT_ENTERED = {
    **dict.fromkeys(
        ("xlm", "flaubert"), "its 'embeddings' is the word table only; positions and LayerNorm are applied outside it$"
    ),
    **dict.fromkeys(("gemma3, both ways", "eurobert", "qwen2", "xlnet"), "it has no module called 'embeddings'$"),
}
"""Encoders without an entry for SMART's noise, with the reason in the error."""
DECODERS: dict[str, Any] = {
    "bert, as a decoder": BertConfig(**SMALL, is_decoder=True),
    "gemma3": Gemma3TextConfig(**SMALL, **ENDS, **DIVIDED, head_dim=8),
    "gpt2": GPT2Config(**GPT),
    "llama": LlamaConfig(**SMALL, **ENDS, **DIVIDED),
    "mamba": MambaConfig(**VOCABULARY, hidden_size=16, num_hidden_layers=2, state_size=4),
    "xlm, causal": XLMConfig(**XLM, pad_index=0, causal=True),
}
"""Causal decoders: a token attends only to earlier ones."""
ENCODER_DECODERS: dict[str, Any] = {
    "bart": BartConfig(**VOCABULARY, **LAYERS_OF_BOTH, **HEADS_OF_BOTH, max_position_embeddings=48),
    "t5": T5Config(**VOCABULARY, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2),
}
NO_TEXT_ENCODERS: dict[str, tuple[Any, str]] = {
    "vit": (ViTConfig(**SHAPE, image_size=16, patch_size=8), "vit, which cannot be given a text: "),
    "perceiver": (PerceiverConfig(**VOCABULARY, d_model=16, d_latents=16), "one without a hidden_size (perceiver)"),
    "reformer": (
        ReformerConfig(
            **VOCABULARY,
            **{"hidden_size": 16, "num_attention_heads": 2, "attention_head_size": 8, "feed_forward_size": 16},
            attn_layers=["local"],
            axial_pos_shape=[4, 12],
            axial_pos_embds_dim=[8, 8],
            max_position_embeddings=48,
            local_attn_chunk_length=4,
        ),
        "one that does not give each token a state of its hidden_size, 16 (reformer)",
    ),
}
"""The reason in the error of each."""


SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "dim", "emb_dim", "embedding_size", "input_embedding_size"), 32),
    **dict.fromkeys(("intermediate_size", "hidden_dim", "d_inner", "intra_bottleneck_size", "true_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 3),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), 2),
    **{"num_key_value_heads": 1, "head_dim": 16, "vocab_size": 64, "max_position_embeddings": 64},
    **{"attention_window": 8, "tpu_short_seq_length": 64, "use_bidirectional_attention": True},
}
"""By name in configurations of `transformers`, what makes a model small; and Gemma an encoder."""
TRAINED: dict[str, Any] = {
    "deberta": {**DISENTANGLED, "max_relative_positions": 8},
    "deberta-v2": {**DISENTANGLED, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "conv_kernel_size": 3},
    "electra": {"embedding_size": 8},
    "esm": {"pad_token_id": 1},
    "xlnet": {"d_head": 16},
}
"""Settings of pretrained models that are not their family's default ones: they add parameters, or ESM needs them."""


def small_default(family: str) -> Any:
    """A small configuration of a family that is otherwise the default one of `transformers`."""
    config = CONFIG_MAPPING[family]()
    own = {name: value for name, value in SIZES.items() if name in config.to_dict()}
    for name, value in {**own, **TRAINED.get(family, {})}.items():
        setattr(config, name, value)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    for number, name in enumerate(("pad", "bos", "eos", "cls", "sep", "mask", "unk")):
        if (getattr(config, f"{name}_token_id", None) or 0) >= SIZES["vocab_size"]:
            setattr(config, f"{name}_token_id", number)
    return config


def untrained(config: Any, tokenizer: PreTrainedTokenizerFast) -> PretrainedEncoder:
    """An encoder of an architecture with random weights, large enough that tokens differ as in trained ones."""
    torch.manual_seed(0)
    model = AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    return describe_model("random", model, tokenizer)
