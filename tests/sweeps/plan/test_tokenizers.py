"""A sweep reads the tokens that its encoder was pretrained with, and goes on with those that it began with."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mtlib.data.tables import Table
from mtlib.data.tokenizer_facts import AUTO_TOKENIZER, TOKENIZER_FILE, tokenizer_fingerprint
from mtlib.model.encoder import load_encoder
from results.records.trials import TOKENIZERS_KEY, read_sweep
from sweeps.plan.create import create_sweep
from sweeps.plan.inputs import SweepInputs
from sweeps.plan.tokenizers import NUM_COMPARED, fit_tokenizers, sample_texts
from tests.mtlib.conftest import build_table
from tests.own_tokenizers import FAMILIES, TEXTS, write_own_encoder
from tests.prepared import prepared_with, with_base
from tests.sweeps.plan.conftest import Build


def table_of(*columns: tuple[str, ...]) -> Table:
    return build_table("sst" if len(columns) == 1 else "qqp", *map(list, columns))


def with_table(inputs: SweepInputs, table: Table) -> SweepInputs:
    return dataclasses.replace(inputs, tables={((table.task, split), ()): table for split in ("train", "dev")})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sweep_reads_what_the_file_of_its_encoder_says(
    family: str, tmp_path: Path, options: Build, inputs: SweepInputs
) -> None:
    meant = write_own_encoder(tmp_path, family)
    of_pairs = with_table(inputs, table_of(TEXTS, TEXTS[::-1]))
    found, encoders, lines = fit_tokenizers(options(), of_pairs, {"own": load_encoder(str(tmp_path))})
    for text, second in zip(TEXTS * 2, (*TEXTS[::-1], *[None] * len(TEXTS)), strict=True):
        own = encoders["own"].tokenizer(text, second, return_token_type_ids=True)
        expected = meant.encode(text, second)
        assert (own["input_ids"], own["token_type_ids"]) == (expected.ids, expected.type_ids)
    assert found.tokenizers["own"].source == TOKENIZER_FILE
    assert len(lines) == 1
    assert str(tmp_path) in lines[0]


def test_a_file_that_reads_the_same_changes_nothing_though_it_truncates_and_pads(
    tiny_encoder_folder: Path, tmp_path: Path, options: Build, inputs: SweepInputs
) -> None:
    copy_of_encoder = Path(shutil.copytree(tiny_encoder_folder, tmp_path / "copy"))
    before = tokenizer_fingerprint(load_encoder(str(copy_of_encoder)).tokenizer)
    path = str(copy_of_encoder / TOKENIZER_FILE)
    file = Tokenizer.from_file(path)
    file.enable_truncation(3)
    file.enable_padding(length=3)
    file.save(path)
    encoder = load_encoder(str(copy_of_encoder))
    found, encoders, lines = fit_tokenizers(options(), with_table(inputs, table_of(TEXTS)), {"own": encoder})
    assert encoders["own"] is encoder
    assert tokenizer_fingerprint(encoders["own"].tokenizer) == before
    assert (found.tokenizers["own"].source, lines) == (AUTO_TOKENIZER, [])


def test_special_tokens_of_pairs_matter_to_pairs_alone(tmp_path: Path, options: Build, inputs: SweepInputs) -> None:
    write_own_encoder(tmp_path, "deberta, one separator in pairs")
    encoders = {"own": load_encoder(str(tmp_path))}
    assert fit_tokenizers(options(), with_table(inputs, table_of(TEXTS)), encoders)[2] == []


def test_a_resumed_sweep_reads_as_it_began_and_is_refused_where_it_cannot(
    tmp_path: Path, options: Build, inputs: SweepInputs
) -> None:
    write_own_encoder(tmp_path / "own", "bert, cased")
    data = with_table(inputs, table_of(TEXTS))
    found, fitted, _ = fit_tokenizers(options(), data, {"own": load_encoder(str(tmp_path / "own"))})
    plan = create_sweep(prepared_with(options(), found, fitted), "")
    assert set(read_sweep(plan.options.folder)[TOKENIZERS_KEY]) == {"own"}
    moved = {"moved": load_encoder(str(tmp_path / "own"))}
    again, encoders, lines = fit_tokenizers(options(resume=True), data, moved)
    assert (again.tokenizers["moved"], lines) == (found.tokenizers["own"], [])
    assert encoders["moved"].tokenizer_source == TOKENIZER_FILE
    path = tmp_path / "own" / TOKENIZER_FILE
    path.write_text(path.read_text().replace('"NFC"', '"Lowercase"'))
    with pytest.raises(ValueError, match=r"^the tokens of own must be what they were when the sweep began"):
        fit_tokenizers(options(resume=True), data, {"own": load_encoder(str(tmp_path / "own"))})


def test_a_sweep_of_before_tokenizers_were_recorded_goes_on_with_the_class(
    tmp_path: Path, options: Build, inputs: SweepInputs
) -> None:
    write_own_encoder(tmp_path / "own", "bert, cased")
    encoder = load_encoder(str(tmp_path / "own"))
    plan = create_sweep(prepared_with(options(), inputs, {"own": encoder}), "")
    path = Path(plan.options.folder, "sweep.json")
    info = {key: value for key, value in json.loads(path.read_text()).items() if key not in (TOKENIZERS_KEY, "crc32")}
    path.write_text(json.dumps(info))
    data = with_table(inputs, table_of(TEXTS))
    found, encoders, lines = fit_tokenizers(options(resume=True), data, {"own": encoder})
    assert (encoders["own"], lines) == (encoder, [])
    assert found.tokenizers["own"].source == AUTO_TOKENIZER


def test_rows_that_are_too_long_are_shown_and_recorded_of_a_new_sweep(
    options: Build, inputs: SweepInputs, tiny_encoder_folder: Path
) -> None:
    name = str(tiny_encoder_folder)
    short = with_base(inputs, encoder__name=name, encoder__max_length=8)
    encoders = {name: load_encoder(name)}
    data = with_table(short, table_of(("a film " * 20, "a film", "a cat", "a dog")))
    found, _, lines = fit_tokenizers(options(), data, encoders)
    assert [(rows.task, rows.max_length, rows.share) for rows in found.cut_rows] == [("sst", 8, 0.25)]
    assert any("25.0%" in line and "SST" in line and "8 tokens" in line for line in lines)
    found, _, lines = fit_tokenizers(options(), with_table(short, table_of(("a film",))), encoders)
    assert (found.cut_rows, lines) == ([], [])


def test_the_sample_is_of_distinct_texts_in_any_order() -> None:
    texts = tuple(f"text {number}" for number in range(3 * NUM_COMPARED))
    chosen, has_pairs = sample_texts([table_of(texts), table_of(texts[:9], texts[:9])])
    assert len(set(chosen)) == len(chosen) == NUM_COMPARED
    assert has_pairs
    assert sample_texts([table_of(texts[::-1])]) == (chosen, False)
    first_half = set(texts[: len(texts) // 2])
    assert 0.4 < len(first_half.intersection(chosen)) / NUM_COMPARED < 0.6
