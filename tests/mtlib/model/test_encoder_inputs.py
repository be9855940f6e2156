"""Segment ids are passed to the encoders that use them, and to no others."""

import torch

from mtlib.model.encoder_inputs import encoder_arguments, takes_segments
from tests.architectures import ENCODERS


def test_segments_are_passed_to_models_that_know_them() -> None:
    known = {name for name, config in ENCODERS.items() if takes_segments(config)}
    assert {"bert", "albert", "electra", "xlnet", "funnel"} <= known
    assert not known & {"distilbert", "xlm", "flaubert", "deberta", "mpnet"}
    ids = torch.tensor([[5, 6]])
    for name, config in ENCODERS.items():
        given = encoder_arguments(config, ids, ids, ids)
        assert list(given) == ["input_ids", "attention_mask", *(["token_type_ids"] if name in known else [])]
