"""One text of a user with markup of every kind is shown as it is in every place that shows one, and read as none."""

import html.parser
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

import mtlib.data.__main__ as describe
from mtlib.checkpoints.model_card import markdown, markdown_code
from mtlib.config.schema import to_dict
from mtlib.runtime.command_line import new_parser, print_error
from mtlib.runtime.console import visible
from mtlib.tasks import TASKS, Task
from results import predict, report, selector, table
from results.inference.bundle.card import bundle_card
from results.inference.bundle.manifest import Bundle
from results.inference.progress_bar import show_rows
from results.records.selection import BundledMember
from results.sweep import load_sweep
from sweeps import status
from sweeps.cli.progress import show_progress
from sweeps.cli.summary import show_answer
from sweeps.driver.trials.table import Event, open_table
from sweeps.options import SweepOptions, SweepPlan
from tests.nasty_text import NASTY, NASTY_NAME, SHOWN, assert_shown, squeezed
from tests.results.inference.trained_sweep import member_of, selection_of
from tests.results.page.recorded_sweep import SPACE, sweep_info, with_records, write_recorded_sweep

Capture = pytest.CaptureFixture[str]
WIDTHS = (40, 80, 120)
KEY = "smart.mode"
VALUES = (NASTY, f"{NASTY}2", "paper")


def nasty_tasks() -> dict[str, Task]:
    """The tasks, two with titles that differ in brackets alone."""
    titles = {"sst": f"{NASTY} [en]", "qqp": f"{NASTY} [de]", "sts": "STS"}
    return {name: replace(task, title=titles[name]) for name, task in TASKS.items()}


@pytest.fixture(scope="module")
def nasty_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with the text in its place, question, titles, values, errors, hosts and provenance."""
    folder = tmp_path_factory.mktemp("sweeps") / NASTY_NAME / "mine"
    info = sweep_info("mine")
    base = {**info["base"], "smart": {**info["base"]["smart"], "mode": NASTY}}
    base["data"] = {**base["data"], "tasks": to_dict(nasty_tasks())}
    space = {**info["space"], "question": NASTY, "grid": [[KEY, list(VALUES)]]}
    changes: dict[str, Any] = {
        "base": base,
        "space": space,
        "command": NASTY,
        "git": {"revision": NASTY, "is_changed": False},
    }
    changes["encoder"] = {"name": NASTY, "fingerprint": "abc"}
    sweep = write_recorded_sweep(folder, **changes)
    records = [replace(record, params={KEY: VALUES[record.number]}, host=NASTY) for record in sweep.records]
    failed = replace(records[-1], trial_id="0003-r0", number=3, replicate=0, status="failed", error=f"error: {NASTY}")
    with_records(folder, [*records, failed])
    return folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("flags", [[], ["--effects"]])
def test_tables_show_texts_as_they_are(
    width: int, flags: list[str], nasty_sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert table.main([str(nasty_sweep), *flags]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert_shown(printed.out, "", " [en]", " [de]", "2")
    assert "…" not in printed.out


def test_the_summary_of_a_sweep_shows_texts_as_they_are(nasty_sweep: Path, capsys: Capture) -> None:
    show_answer(str(nasty_sweep))
    assert_shown(capsys.readouterr().out, "", " [en]", " [de]", "2")


@pytest.mark.parametrize("width", WIDTHS)
def test_selector_shows_texts_as_they_are(
    width: int, nasty_sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert selector.main([str(nasty_sweep), "--method", "topk"]) == 0
    assert_shown(capsys.readouterr().out, " [en]", " [de]")


@pytest.mark.parametrize("width", WIDTHS)
def test_status_shows_texts_as_they_are(
    width: int, nasty_sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert status.main([str(nasty_sweep)]) == 0
    assert_shown(capsys.readouterr().out, "", "2", " [en] 0.250")
    assert status.main(["--storage", str(nasty_sweep.parent)]) == 0
    (command,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  python")]
    assert command.endswith("mine'")
    assert squeezed(SHOWN.replace("/", "-")) in squeezed(command)


class TextReader(html.parser.HTMLParser):
    """The texts of a page, and the names of its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002 - as the class declares it
        self.elements.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_and_its_figures_show_texts_as_they_are(nasty_sweep: Path) -> None:
    assert selector.main([str(nasty_sweep), "--method", "topk"]) == 0
    assert report.main([str(nasty_sweep)]) == 0
    page, content = TextReader(), (nasty_sweep / "report.html").read_text()
    page.feed(re.sub(r"<(script|style)\b.*?</\1>", "", content, flags=re.DOTALL))
    assert_shown("\n".join(page.texts), "", " [en]", " [de]", "2")
    assert "b" not in page.elements
    assert_shown_by_figures(content)
    assert set(VALUES) <= set(load_sweep(nasty_sweep).ranking()[KEY]), "data frames are not changed"


def drawn_texts(data: Any) -> Iterator[str]:
    """The texts in a figure's JSON that Plotly draws; `meta` is for the page's own legend."""
    if isinstance(data, str):
        yield data
    parts = [own for key, own in data.items() if key != "meta"] if isinstance(data, dict) else data
    for part in parts if isinstance(parts, list) else ():
        yield from drawn_texts(part)


def assert_shown_by_figures(page: str) -> None:
    """Asserts that Plotly, which reads elements and TeX, shows the text in the figures of a page as it is."""
    data = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    reader, texts = TextReader(), list(drawn_texts(json.loads(data[1])))
    reader.feed("\n".join(texts))
    assert_shown("\n".join(reader.texts), "", " [en]", " [de]", "2")
    assert not [text for text in texts if "$" in text]
    assert reader.elements <= {"br", "extra"}, "of our own"


def test_errors_and_helps_show_texts_as_they_are(capsys: Capture) -> None:
    print_error(ValueError(NASTY))
    assert_shown(capsys.readouterr().err)
    assert_shown(new_parser("python x.py", "FILE", "", f"tasks: {NASTY}\nend").format_help())


def test_notes_and_progress_of_predictions_show_texts_as_they_are(
    trained_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    name = NASTY_NAME[:50]  # of longer names the end is shown
    file = tmp_path / f"{name}.csv"
    file.write_text("sentence\na film\n")
    assert predict.main([str(trained_folder), "--task", "sst", "--input", str(file), "--device", "cpu"]) == 0
    printed = capsys.readouterr()
    assert visible(name) in printed.err
    assert "\x1b" not in printed.err
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "300")
    with show_rows(io.BytesIO(b""), NASTY) as on_rows:
        on_rows(3)
    assert SHOWN in re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", terminal.getvalue())


def text_of_markdown(text: str) -> str:
    """What a reader of Markdown sees; the text must have no element of lines but code."""
    front = text.split("---\n", 2)[2] if text.startswith("---\n") else text
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(front)
    inline = [own for token in tokens if token.type == "inline" for own in token.children or []]
    kinds = {token.type for token in inline} - {"link_open", "link_close"}  # of models, our own
    assert kinds <= {"text", "softbreak", "code_inline", "text_special"}, kinds
    assert not [token for token in tokens if token.type == "html_block"]
    return "".join(token.content for token in inline)


def test_cards_show_texts_as_they_are(trained_folder: Path) -> None:
    members = {task: (member_of(trained_folder, "0000-r0", task),) for task in ("sst", "qqp")}
    tasks = {
        name: replace(
            task, labels=(NASTY, "b"), text_columns=(NASTY,), label_range=(0.0, 1.0), kind="binary", metric=""
        )
        for name, task in nasty_tasks().items()
        if name in members
    }
    selection = replace(selection_of(trained_folder, members), definitions=tasks)
    bundle = Bundle(
        created="2024-06-01",
        python="3.11",
        packages={},
        models={"models/1": f"trial of {NASTY}"},
        tasks={name: (BundledMember(model="models/1", weight=1.0),) for name in members},
        definitions=tasks,
    )
    assert_shown(text_of_markdown(bundle_card(selection, bundle, [])), "", " [en]", " [de]")
    assert_shown(text_of_markdown(markdown(NASTY)))
    for text in (NASTY, "a|b", "plain name"):
        assert squeezed(text_of_markdown(markdown_code(text))) == squeezed(text if text != NASTY else SHOWN)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_progress_of_a_sweep_shows_texts_as_they_are(is_terminal: bool) -> None:
    console = Console(file=io.StringIO(), width=500, force_terminal=is_terminal)
    plan = SweepPlan(options=SweepOptions(name="mine", storage="/x"), space=SPACE, data_folder=Path("/x"))
    with show_progress(console, open_table(plan)) as on_event:
        shown = {"note": {"text": NASTY}, "lane_open": {"host": NASTY}, "lane_failed": {"why": NASTY}}
        for kind, facts in shown.items():
            on_event(Event(kind=kind, lane=NASTY, trial_id=None, facts=facts))  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.count(SHOWN) == 5
    assert "\x1b[31m" not in text


def test_the_description_of_a_data_folder_shows_texts_as_they_are(tmp_path: Path, capsys: Capture) -> None:
    quoted = "'" + re.sub(r"[\x00-\x1f\x7f\x9b]", "", NASTY) + "'"
    (tmp_path / "tasks.toml").write_text(
        f"[tasks.tone]\ntitle = {quoted}\nkind = 'binary'\nlabels = [{quoted}, 'b']\ntexts = ['t']\nlabel = 'l'\n"
        "train = 'a.jsonl'\ndev = 0.5\n"
    )
    rows = pd.DataFrame({"t": [f"text {row}" for row in range(8)], "l": [quoted[1:-1], "b"] * 4})
    rows.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    assert describe.main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count(quoted[1:-1].replace("\u202e", r"\u202e")) >= 2
