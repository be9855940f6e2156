"""The notebook from a sweep to a figure for a paper: every cell runs on a recorded sweep, and the figure is written."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.results.page.recorded_sweep import write_recorded_sweep
from tests.scripts import ROOT

NOTEBOOK_PATH = ROOT / "examples" / "analysis.ipynb"
PLOTLY_TYPE = "application/vnd.plotly.v1+json"


def read_notebook() -> Any:
    """The notebook; nbformat checks it."""
    notebook = nbformat.read(NOTEBOOK_PATH, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return notebook


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The outputs of each code cell by the cell's name, all in the folder of the test."""
    write_recorded_sweep(tmp_path / "mine")
    environment = {"SWEEP": tmp_path / "mine", "PYTHONPATH": ROOT, "HOME": tmp_path}
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "PLOTLY_RENDERER"):
        monkeypatch.delenv(name, raising=False)
    notebook, place = read_notebook(), {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=place).execute()
    return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def data_of(outputs: Any) -> dict[str, Any]:
    """What a cell displays, by mime type."""
    (found,) = [output.data for output in outputs if output.output_type in ("display_data", "execute_result")]
    return dict(found)


def test_notebook_leads_from_a_sweep_to_a_figure_for_a_paper(executed: dict[str, Any], tmp_path: Path) -> None:
    kinds = {output.output_type for outputs in executed.values() for output in outputs}
    streams = {output.name for outputs in executed.values() for output in outputs if output.output_type == "stream"}
    assert (kinds - {"display_data", "execute_result"}, streams) == ({"stream"}, {"stdout"})
    assert executed["answer"][0].text.startswith("How strongly should SMART count")
    assert "sst_dev" in data_of(executed["table"])["text/html"]
    for name in ("effects", "curves"):
        assert data_of(executed[name])[PLOTLY_TYPE]["data"]
    (path,) = (tmp_path / "mine" / "images").iterdir()
    assert "<html>" in path.read_text()
    assert "Paired differences" in executed["figure"][0].text


def test_notebook_is_committed_without_outputs_and_each_cell_has_a_text_above() -> None:
    notebook = read_notebook()
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code"] * (len(notebook.cells) // 2)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)
