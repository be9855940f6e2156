"""Segment ids are passed to the encoders that use them, and to no others."""

import pytest
import torch

from mtlib.model.architecture_check import small_model
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


@pytest.mark.parametrize("name", ["funnel", "xlnet"])
def test_without_a_segment_table_the_check_counts_tokens_of_one_segment(name: str) -> None:
    model = small_model(ENCODERS[name], {})
    ids, mask, nothing = torch.tensor([[5, 6, 7, 8, 9]]), torch.ones(1, 5), torch.zeros(1, 5, dtype=torch.int64)
    with torch.no_grad():
        for bias in [weight for key, weight in model.named_parameters() if key.endswith(("seg_embed", "r_s_bias"))]:
            bias.normal_()
        apart, alike, other = (
            model(**encoder_arguments(model.config, ids, mask, segments)).last_hidden_state
            for segments in (torch.tensor([[0, 0, 1, 1, 1]]), nothing, nothing + 1)
        )
    assert torch.equal(alike, other)
    assert not torch.allclose(apart, alike)
