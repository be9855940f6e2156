"""Pages in a headless browser: no error, nothing empty, no texts over each other, at two widths, light and dark."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from mtlib.config.schema import to_dict
from mtlib.tasks import TASKS
from results.page.sections import PageInputs
from results.page.write import build_page, inputs_of, write_page
from results.records.epochs import write_epoch
from results.records.selection import write_selection
from results.records.tables import write_trials
from results.records.trials import write_sweep
from results.selection.select_all import SelectionRequest, select_from
from results.sweep import Sweep, load_sweep
from tests.results.conftest import build_report
from tests.results.page.recorded_sweep import best_of, recorded, sweep_info, write_recorded_sweep
from tests.results.page.test_render import HOSTILE

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
TERMS = {("sst", "smart_penalty"): 0.1, ("sst", "gradient_norm"): 1.0, ("qqp", "gradient_norm"): 1.5}
MOST_MEGABYTES = 3
"""Of a page besides Plotly."""
LOCAL = ("file:", "data:", "blob:")
MANY_KEYS = [f"optimizer.group_{number}.learning_rate" for number in range(12)]
MakeInputs = Callable[[Path], PageInputs]

DRAW_ALL = """
async () => {
  for (const plot of document.querySelectorAll('.plot')) {
    plot.scrollIntoView();
    for (let tries = 0; tries < 100 && !plot.querySelector('.main-svg'); tries += 1)
      await new Promise((done) => setTimeout(done, 20));
  }
}
"""
EMPTY = """
() => Array.from(document.querySelectorAll('.plot'))
  .filter((plot) => !plot.querySelector('.points path, .js-line, .bars path, .heatmaplayer image'))
  .map((plot) => plot.getAttribute('aria-label'))
"""
EMPTY_TABLES = """
() => Array.from(document.querySelectorAll('table'))
  .filter((table) => !table.querySelector('tbody tr'))
  .map((table) => table.closest('figure').querySelector('figcaption').textContent)
"""
CUT = """
() => Array.from(document.querySelectorAll('.scroll, pre, code.command, p'))
  .filter((block) => block.scrollWidth > block.clientWidth + 1)
  .map((block) => block.textContent.slice(0, 80))
"""
OVERLAPS = """
() => {
  const found = [];
  const straight = (text) => !/rotate\\((?!0[,)])/.test(text.getAttribute('transform') || '');
  for (const plot of document.querySelectorAll('.plot')) {
    const kinds = '[class$="tick"] text, .infolayer text';
    const texts = Array.from(plot.querySelectorAll(kinds))
      .filter((text) => straight(text) && text.textContent.trim())
      .map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const area of plot.querySelectorAll('.nsewdrag')) {
      const panel = area.getBoundingClientRect();
      for (const [text, box] of texts) {
        const wide = Math.min(panel.right, box.right) - Math.max(panel.left, box.left);
        const high = Math.min(panel.bottom, box.bottom) - Math.max(panel.top, box.top);
        if (wide > 1 && high > 2) found.push([plot.getAttribute('aria-label'), text, 'a panel']);
      }
    }
    for (let i = 0; i < texts.length; i += 1)
      for (let j = i + 1; j < texts.length; j += 1) {
        const [a, b] = [texts[i][1], texts[j][1]];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 2) found.push([plot.getAttribute('aria-label'), texts[i][0], texts[j][0]]);
      }
  }
  return found;
}
"""
HOVER = """
async (place) => {
  const plot = document.querySelectorAll('.plot')[place];
  plot.scrollIntoView();
  await new Promise((done) => setTimeout(done, 100));
  const curve = plot.data.findIndex((trace) => trace.text && trace.mode === 'markers');
  Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: 0 }]);
  await new Promise((done) => setTimeout(done, 100));
  return plot.querySelector('.hoverlayer').textContent;
}
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"needs one of {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=list(OPTIONS))
        yield opened
        opened.close()


def with_selection(sweep: Sweep) -> PageInputs:
    write_selection(sweep.path, select_from(SelectionRequest(sweeps=[str(sweep.path)]), command="here"))
    return inputs_of(sweep)


def whole(folder: Path) -> PageInputs:
    """A sweep with everything: replicates, penalties, a published table, ensembles, texts."""
    inputs = with_selection(write_recorded_sweep(folder / "mine", num_replicates=3, num_epochs=3, terms=TERMS))
    read_texts = partial(texts_of_ids, texts=("a text of some length", "and another"))
    return replace(inputs, read_texts=read_texts)


def texts_of_ids(_: str, ids: Sequence[str], texts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [texts] * len(ids)


def hostile(folder: Path) -> PageInputs:
    """Markup in every name and text."""
    space = {**sweep_info("mine")["space"], "question": HOSTILE}
    sweep = write_recorded_sweep(folder / "mine", space=space, command=HOSTILE)
    titled = {name: replace(task, title=f"{task.title} {HOSTILE}") for name, task in TASKS.items()}
    sweep.__dict__["tasks"] = titled
    return replace(inputs_of(sweep), read_texts=partial(texts_of_ids, texts=(HOSTILE, HOSTILE)))


def large(folder: Path) -> PageInputs:
    """200 trials of a random search over two ranges, a third of them pruned."""
    ranges = [
        [name, {"Float": {"low": 0.0, "high": 3.0, "log": False}}] for name in ("smart.weight", "smart.step_size")
    ]
    space = {**sweep_info("mine")["space"], "grid": [], "ranges": ranges, "published": []}
    write_sweep(folder / "mine", sweep_info("mine", space=space, search="random"))
    records = []
    for number in range(200):
        epochs = 1 if number % 3 == 0 else 4
        skills = [0.3 + number / 400 + 0.1 * epoch for epoch in range(1, epochs + 1)]
        reports = [build_report(epoch, skill=skill, seed=number) for epoch, skill in enumerate(skills, 1)]
        params = {"smart.weight": 3 * (number / 200), "smart.step_size": 3 * ((7 * number % 200) / 200)}
        status = "pruned" if epochs == 1 else "complete"
        record = replace(recorded(number, 0.3, 0, status=status, **best_of(reports)), params=params)
        records.append(record)
        for report in reports:
            write_epoch(folder / "mine", record.trial_id, report)
    write_trials(folder / "mine", records, tuple(TASKS))
    return inputs_of(load_sweep(folder / "mine"))


def many_keys(folder: Path) -> PageInputs:
    """A random search over 12 keys by an RMSE, whose trials successive halving stopped after one or three epochs."""
    ranges = [[name, {"Float": {"low": 0.0, "high": 1.0, "log": False}}] for name in MANY_KEYS]
    grid: list[tuple[str, list[str]]] = [
        ("smart.mode_of_combination", ["paper_with_long_name", "another_long_name", "third"])
    ]
    space = {**sweep_info("mine")["space"], "metric": "sts", "grid": grid, "ranges": ranges, "published": []}
    base = sweep_info("mine")["base"]
    base["data"]["tasks"] = {name: to_dict(task) for name, task in TASKS.items()}
    info = sweep_info("mine", space=space, base=base, search="random", scheduler="asha")
    write_sweep(folder / "mine", info)
    records, stream = [], np.random.default_rng(0)
    for number in range(20):
        epochs = (1, 1, 3, 4)[number % 4]
        reports = [build_report(epoch, skill=0.3 + number / 20, seed=number) for epoch in range(1, epochs + 1)]
        params: dict[str, Any] = dict(zip(MANY_KEYS, stream.uniform(size=len(MANY_KEYS)).tolist(), strict=True))
        params |= {name: values[number % len(values)] for name, values in grid}
        status = "complete" if epochs == 4 else "pruned"
        records.append(replace(recorded(number, 0.3, 0, status=status, **best_of(reports)), params=params))
        for report in reports:
            write_epoch(folder / "mine", records[-1].trial_id, report)
    write_trials(folder / "mine", records, tuple(TASKS))
    return inputs_of(load_sweep(folder / "mine"))


MAKES = (whole, hostile, large, many_keys)


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[MakeInputs], Path]:
    """Writes a page, once for all widths and schemes."""

    @cache
    def write(make: MakeInputs) -> Path:
        folder = tmp_path_factory.mktemp(make.__name__)
        with pytest.MonkeyPatch.context() as patch:
            if make is many_keys:
                patch.setitem(TASKS, "sts", replace(TASKS["sts"], metric="rmse"))
            return Path(write_page(folder, build_page(make(folder))))

    return write


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
@pytest.mark.parametrize("make", MAKES)
def test_page_opens_without_fault(
    make: MakeInputs, width: int, scheme: str, browser: Any, page_path: Callable[[MakeInputs], Path]
) -> None:
    path = page_path(make)
    assert path.stat().st_size - len(get_plotlyjs()) < MOST_MEGABYTES * 1e6
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    errors: list[str] = []
    page.on("console", lambda message: errors.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: errors.extend([] if request.url.startswith(LOCAL) else [request.url]))
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true; })")
    page.evaluate(DRAW_ALL)
    assert errors == []
    assert page.evaluate(EMPTY) == []
    assert page.evaluate(EMPTY_TABLES) == []
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 420:
        assert page.evaluate(CUT) == []
    page.close()


@pytest.fixture
def page(browser: Any, page_path: Callable[[MakeInputs], Path]) -> Iterator[Any]:
    """The page of a sweep with everything, all of it drawn."""
    opened = browser.new_page(color_scheme="dark")
    opened.goto(page_path(whole).as_uri())
    opened.evaluate(DRAW_ALL)
    yield opened
    opened.close()


def test_hovering_a_point_names_trial_values_and_score(page: Any) -> None:
    places = page.evaluate("Array.from(document.querySelectorAll('.plot')).map((plot) => plot.closest('figure').id)")
    text = page.evaluate(HOVER, places.index("effects-scores-smart-weight"))
    for part in ("0000-r0", "smart.weight 0", "overall 0."):
        assert part in text


def test_entry_of_a_legend_hides_and_shows_its_lines_of_dev_and_train(page: Any) -> None:
    figure = page.locator("#training-learning-curves")
    figure.scroll_into_view_if_needed()
    lines = figure.locator(".js-line")
    dashed = lines.and_(page.locator("[style*='stroke-dasharray: 9px']"))
    num_lines, num_dashed = lines.count(), dashed.count()
    entry = figure.locator(".legendtoggle").first
    entry.click()
    page.wait_for_timeout(500)  # Plotly waits for a second click
    assert 0 < dashed.count() < num_dashed
    assert 0 < lines.count() - dashed.count() < num_lines - num_dashed
    entry.click()
    page.wait_for_timeout(500)
    assert (lines.count(), dashed.count()) == (num_lines, num_dashed)


def test_page_prints_dark_text_with_all_figures_and_what_is_folded(page: Any) -> None:
    folded = page.locator("details:not([open])")
    num_folded = folded.count()
    assert num_folded > 0
    for _ in range(2):  # some browsers announce a print twice
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert folded.count() == 0
    assert page.locator(".plot:has(.main-svg)").count() == page.locator(".plot").count() > 10
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.xtick text')).fill") == "rgb(0, 0, 0)"
    assert len(page.pdf()) > 50_000
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert folded.count() == num_folded
