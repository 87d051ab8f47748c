"""The notebook of the documentation, executed against a server whose pilots run its jobs."""

import json
import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.end_to_end.docs.system import PASSWORD
from tests.end_to_end.installed import ENVIRONMENT, ROOT
from tests.end_to_end.physicist.conftest import InstalledClient
from tests.pace import within

NOTEBOOK = ROOT / "docs" / "notebooks" / "first-analysis.ipynb"


def log_in(client: InstalledClient, server: str, *, home: Path) -> None:
    """Log in as Alice, as a user of this home."""
    home.mkdir()
    subprocess.run(
        [client.programs / "wms", "login", "--server", server, "--user", "alice"],
        env=ENVIRONMENT | {"HOME": str(home)},
        input=f"{PASSWORD}\n",
        text=True,
        check=True,
        timeout=within(60),
    )


def outputs_of(notebook: nbformat.NotebookNode, cell_id: str) -> list[str]:
    """Return each output of a cell: HTML if it has one, else text."""
    (cell,) = [cell for cell in notebook.cells if cell.id == cell_id]
    return [
        output.text if output.output_type == "stream" else output.data.get("text/html", output.data["text/plain"])
        for output in cell.outputs
    ]


def test_the_notebook_has_no_stored_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_the_notebook_submits_follows_retries_and_downloads(
    client: InstalledClient, server: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(client, server, home=directory / "home")
    work = directory / "notebook"
    work.mkdir()
    for name in os.environ.keys() - ENVIRONMENT.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(directory / "home"))
    # The kernel is that of the tests; the client is the installed one.
    monkeypatch.setenv("PYTHONPATH", str(client.packages))
    monkeypatch.setenv("IPYTHONDIR", str(directory / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]

    NotebookClient(notebook, timeout=int(within(300)), resources={"metadata": {"path": str(work)}}).execute()

    assert "10 Waiting" in outputs_of(notebook, "submit")[0]
    table, counts = outputs_of(notebook, "follow")
    # The table is that of the last job.
    assert 'aria-label="9 Done, 1 Failed"' in table
    assert "<td>Exited with code 3; output sandbox: not found: result.txt</td>" in table
    assert counts == "{'Done': 9, 'Failed': 1}"
    (failures,) = outputs_of(notebook, "failures")
    assert failures.splitlines()[0].endswith("Exited with code 3; output sandbox: not found: result.txt")
    assert failures.splitlines()[1] == "seed 10 is above 9"
    assert outputs_of(notebook, "retry") == ["(1, {'Done': 9, 'Failed': 1})"]
    assert outputs_of(notebook, "mend") == ["{'Done': 1}"]
    (result,) = outputs_of(notebook, "output")
    assert result.startswith("10 jobs, 200000 points, pi is about 3.1")
    assert len(list((work / "results").glob("*/result.txt"))) == 10
