"""Makes the page of a sweep, and writes it, and its figures as images."""

import contextlib
from pathlib import Path

import plotly.graph_objects as go
import plotly.io

from mtlib.runtime.errors import reason_of
from mtlib.runtime.storage import Location, is_file, join_location, open_folder, write_bytes
from results.figures.draw import WIDTH
from results.page.content import Page
from results.page.predictions import ReadTexts
from results.page.published import data_text, has_demo_data
from results.page.render import render_page
from results.page.sections import PageInputs, sweep_sections
from results.records.expected_trials import describe_ended
from results.records.selection import SELECTION_FILE, read_selection
from results.records.trials import STOPPED_BY, sweep_encoders
from results.stats.texts import value_text
from results.sweep import Sweep

PAGE_FILE = "report.html"
IMAGES_FOLDER = "images"
IMAGE_KINDS = ("png", "svg")


def inputs_of(sweep: Sweep, read_texts: ReadTexts | None = None) -> PageInputs:
    """Returns a sweep with its selection, if there is one, or with why that cannot be read."""
    selection, why_not = None, ""
    if is_file(open_folder(sweep.path), SELECTION_FILE):
        try:
            selection = read_selection(sweep.path)
        except ValueError as error:
            why_not = reason_of(error)
    return PageInputs(sweep=sweep, selection=selection, selection_error=why_not, read_texts=read_texts)


def build_page(inputs: PageInputs) -> Page:
    """Returns the page of a sweep."""
    sweep = inputs.sweep
    return Page(title=f"Sweep {sweep.name}", subtitle=subtitle_of(sweep), sections=sweep_sections(inputs))


def subtitle_of(sweep: Sweep) -> str:
    """Number of trials, the limit that stopped them, date, encoder and data."""
    names = list(map(value_text, sweep_encoders(sweep.info)))
    encoder = f"encoder{'s' * (len(names) > 1)} {', '.join(names) or 'not recorded'}"
    note = "; scores are no evidence about real text" if has_demo_data(sweep.info) else ""
    limit = f", stopped by {sweep.info[STOPPED_BY]}" if STOPPED_BY in sweep.info else ""
    trials = f"{describe_ended(sweep.info, sweep.records)}{limit}"
    return f"{trials}, started {str(sweep.info.get('created', ''))[:10]}; {encoder}; {data_text(sweep.info)}{note}"


def write_page(folder: Location, page: Page) -> str:
    """Writes a page into a folder, or behind a URI, atomically; returns its path."""
    write_bytes(open_folder(folder), PAGE_FILE, render_page(page).encode())
    return join_location(str(folder), PAGE_FILE)


def write_sweep_page(sweep: Sweep) -> str:
    """Makes a sweep's page from its records alone and writes it into its folder; returns its path."""
    return write_page(sweep.path, build_page(inputs_of(sweep)))


def write_figures(page: Page, folder: Path) -> int:
    """Writes each figure of a page on white as PNG and SVG; returns how many files there are.

    All are written by one browser: starting one for each file takes ten times as long.

    Args:
        folder: is made if it is missing.

    Raises:
        ValueError: Plotly cannot write images: kaleido, or a Chrome or Chromium, is missing.
    """
    figures, files = list[go.Figure](), list[Path]()
    folder.mkdir(parents=True, exist_ok=True)
    for figure in page.figures:
        on_white = go.Figure(figure).update_layout(paper_bgcolor="white")
        for kind in IMAGE_KINDS:
            figures.append(on_white)
            files.append(folder / f"{figure.layout.meta['name']}.{kind}")
    try:
        heights = [figure.layout.height for figure in figures]  # Plotly takes its default height for those not given
        plotly.io.write_images(figures, files, width=WIDTH, height=heights, scale=2)
    except (ValueError, RuntimeError) as error:
        with contextlib.suppress(OSError):  # an empty one would be in the way of the next attempt
            folder.rmdir()
        rule = "--images needs kaleido (pip install 'multitask-sweeps[images]') and a Chrome or Chromium"
        raise ValueError(f"{rule}: {reason_of(error).rstrip(',')}") from error  # Plotly's line ends within a sentence
    return len(files)
