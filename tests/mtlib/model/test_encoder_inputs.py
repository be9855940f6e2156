"""Segment ids are passed to the encoders that use them, and to no others."""

import torch

from mtlib.model.encoder_inputs import encoder_arguments
from tests.architectures import ENCODERS


def test_segments_are_passed_to_models_that_know_them() -> None:
    ids = torch.tensor([[5, 6]])
    given = {name: encoder_arguments(config, ids, ids, ids) for name, config in ENCODERS.items()}
    assert all({"input_ids", "attention_mask"} <= arguments.keys() for arguments in given.values())
    known = {name for name, arguments in given.items() if "token_type_ids" in arguments}
    assert {"bert", "albert", "electra", "xlnet", "funnel"} <= known
    assert not known & {"distilbert", "xlm", "flaubert", "deberta", "mpnet"}
