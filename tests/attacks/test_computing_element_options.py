"""The type, options and identity of a computing element define the commands of the server: only operators set them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pilots.models import CEHealth
from pilots.services.ce_cycle import serve
from resources.models import ComputingElement, Queue
from tests.admin.conftest import RowsOfVO, act, add, change, changelist, client_of, errors_of, make_rows_of_vo
from tests.factories import make_ce, make_queue, make_site, make_user
from wms.configuration.configure import configure
from wms.configuration.problems import ConfigurationError

pytestmark = pytest.mark.django_db

#: Each loads code into the command, or into what it runs.
DANGEROUS = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "BASH_ENV",
    "ENV",
    "PATH",
    "IFS",
]
DANGEROUS += ["HOME", "SSH_AUTH_SOCK", "GCONV_PATH", "PERL5LIB", "WMS_SECRET_KEY", "DJANGO_SETTINGS_MODULE"]


@pytest.fixture
def mine() -> RowsOfVO:
    return make_rows_of_vo("lhcb")


@pytest.fixture
def theirs() -> RowsOfVO:
    return make_rows_of_vo("atlas")


@pytest.fixture
def manager(mine: RowsOfVO) -> Client:
    """Return the client of Bob, who manages lhcb only."""
    return client_of(make_user(username="bob", staff=True, manages=[mine.vo]))


@pytest.fixture
def operator() -> Client:
    return client_of(make_user(username="olivia", staff=True, operator=True))


def evil(**others: str) -> dict[str, str]:
    """Return form data of a computing element whose batch system would load an uploaded file."""
    options = {"environment": {"LD_PRELOAD": "/var/lib/wms/sandboxes/ab/cd"}, "host": "h", "identity_file": "/etc/key"}
    parameters = {"parameters": '{"Memory": 1}', "vo_parameters": "{}"}
    return {"type": "slurm", "identity": "sudo", "options": json.dumps(options), **parameters, **others}


def decided(ce: ComputingElement) -> tuple[Any, ...]:
    ce.refresh_from_db()
    return ce.site_id, ce.name, ce.type, ce.options, ce.identity


@pytest.fixture
def untouched() -> Iterator[None]:
    """Assert that the test has not changed type, options or identity of any computing element."""
    columns = ("pk", "site", "name", "type", "options", "identity")
    before = list(ComputingElement.objects.order_by("pk").values(*columns))
    yield
    assert list(ComputingElement.objects.order_by("pk").values(*columns)) == before


def test_a_manager_changes_parameters_but_not_type_and_options(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, untouched: None
) -> None:
    page = manager.get(change(mine.ce))
    assert not {"type", "options", "identity", "site", "name"} & page.context["adminform"].form.fields.keys()
    assert manager.post(change(mine.ce), evil(site=str(theirs.site.pk), name="moved")).status_code == 302
    mine.ce.refresh_from_db()
    assert mine.ce.parameters == {"Memory": 1}


@pytest.mark.parametrize("type_", ["", "local", "slurm", "ssh"])
def test_a_manager_adds_no_computing_element(type_: str, manager: Client, mine: RowsOfVO, untouched: None) -> None:
    form = evil(site=str(mine.site.pk), name="new", type=type_)
    assert manager.post(add(ComputingElement), form).status_code == 403
    assert manager.post(f"{add(ComputingElement)}?site={mine.site.pk}&_popup=1", form).status_code == 403
    assert manager.post(change(mine.ce), {**form, "_saveasnew": "1"}).status_code in {302, 403}


def test_a_manager_deletes_no_computing_element(manager: Client, mine: RowsOfVO, untouched: None) -> None:
    page = change(mine.ce).replace("/change/", "/delete/")
    assert manager.post(page, {"post": "yes"}).status_code == 403
    act(manager, mine.ce, "delete_selected", post="yes")


def test_no_list_and_no_other_page_changes_options(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, untouched: None
) -> None:
    rows = {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-0-id": str(mine.ce.pk), "_save": "Save"}
    manager.post(changelist(ComputingElement), {**rows, "form-0-type": "slurm", "form-0-options": evil()["options"]})
    act(manager, mine.ce, "ban", confirmed="1", reason="x", **evil())
    inline = {f"ces-0-{name}": value for name, value in evil(id=str(mine.ce.pk)).items()}
    manager.post(change(mine.site), {"ces-TOTAL_FORMS": "1", "ces-INITIAL_FORMS": "1", **inline, **evil()})
    # A queue is not moved to where another VO's options hold, nor made there.
    manager.post(change(mine.queue), {"ce": str(theirs.ce.pk), "name": "moved", "cpu_time_s": "1", "processors": "1"})
    manager.post(add(Queue), {"ce": str(theirs.ce.pk), "name": "mole", "cpu_time_s": "1", "processors": "1"})
    assert not Queue.objects.filter(name="mole").exists()
    assert Queue.objects.get(pk=mine.queue.pk).ce == mine.ce


def test_an_operator_changes_type_and_options(operator: Client, mine: RowsOfVO) -> None:
    options = {"environment": {"SLURM_CONF": "/etc/slurm/site.conf", "LC_ALL": "C", "_CONDOR_COLLECTOR_HOST": "h"}}
    form = evil(identity="none", options=json.dumps(options))
    assert operator.post(change(mine.ce), form).status_code == 302
    assert decided(mine.ce)[2:] == ("slurm", options, "none")


@pytest.mark.parametrize("name", DANGEROUS)
def test_variables_that_load_code_are_refused_for_operators_too(
    name: str, operator: Client, mine: RowsOfVO, untouched: None
) -> None:
    form = evil(identity="none", options=json.dumps({"environment": {name: "/tmp/x"}}))
    (sentence,) = errors_of(operator.post(change(mine.ce), form))["options"]
    assert sentence.startswith("The option environment may set LANG, ")
    assert sentence.endswith(f"remove {name}.")


@pytest.mark.parametrize("name", DANGEROUS)
def test_a_configuration_file_with_code_loading_variables_is_refused(
    name: str, mine: RowsOfVO, untouched: None
) -> None:
    ce = f"{{name: {mine.ce.name}, type: slurm, options: {{environment: {{{name}: /tmp/x}}}}}}"
    with pytest.raises(ConfigurationError, match=f"remove {name}") as refused:
        configure(f"sites: [{{name: {mine.site.name}, ces: [{ce}]}}]".encode(), environ={}, now=timezone.now())
    assert "ces[0].options" in str(refused.value)


def test_rest_accepts_no_type_or_options(operator: Client) -> None:
    schema = json.loads(operator.get("/api/v1/schema/", headers={"Accept": "application/json"}).content)
    bodies = set()
    for operations in schema["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                bodies.add(json.dumps(content["schema"]).rpartition("/")[2].rstrip('"}'))
    assert len(bodies) > 10
    components = schema["components"]["schemas"]
    taken = {name: set(components[name].get("properties", {})) for name in bodies if name in components}
    assert not [name for name, fields in taken.items() if fields & {"options", "identity", "ces", "identity_file"}]


@pytest.mark.django_db(transaction=True)
def test_a_stored_code_loading_variable_is_not_used(tmp_path: Path) -> None:
    """The round at the CE refuses the stored option before it runs a command; the health page shows the reason."""
    for program in ("squeue", "sbatch", "sinfo", "scontrol", "scancel", "sacct"):
        (tmp_path / program).write_text("#!/bin/bash\nexit 1\n")
        (tmp_path / program).chmod(0o755)
    (tmp_path / "payload.sh").write_text(f"env > {tmp_path}/stolen\n")
    options = {"programs": str(tmp_path), "environment": {"BASH_ENV": str(tmp_path / "payload.sh")}}
    ce = make_ce(type="slurm", site=make_site(name="LCG.CERN.ch"), options=options)
    make_queue(ce=ce)
    serve(ce.pk)
    assert not (tmp_path / "stolen").exists()
    assert "remove BASH_ENV" in CEHealth.objects.get(ce=ce).trouble
