"""The type, options and identity of a computing element define the commands of the server: only operators set them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from pilots.models import CEHealth
from pilots.services.ce_cycle import serve
from resources.models import ComputingElement, Queue, StorageElement
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


@pytest.fixture
def allowed(settings: Settings) -> None:
    """Let operators choose programs over HTTP, as in production; the tests run in an embedded system."""
    settings.WMS_CE_PROGRAMS_OVER_HTTP = True


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


def test_an_operator_changes_type_and_options(operator: Client, mine: RowsOfVO, allowed: None) -> None:
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


@pytest.mark.parametrize(
    ("type_", "options", "identity"),
    [
        ("ssh", {}, "none"),
        ("local", {}, "none"),
        ("htcondor", {}, "none"),
        ("slurm", {"python": "/tmp/mallory"}, "none"),
        ("slurm", {"programs": "/tmp/mallory"}, "none"),
        ("slurm", {"environment": {"SLURM_CONF": "/tmp/mallory"}}, "none"),
        ("slurm", {"host": "mallory.example.org"}, "none"),
        ("slurm", {"identity_file": "/root/.ssh/id_ed25519"}, "none"),
        ("slurm", {"known_hosts": "/tmp/mallory"}, "none"),
        ("slurm", {"user": "root"}, "none"),
        ("slurm", {"directory": "/root/.ssh"}, "none"),
        ("slurm", {"submit_arguments": ["--chdir=/root"]}, "none"),
        ("slurm", {"proxy": "http://mallory.example.org:3128"}, "none"),
        ("slurm", {"an_option_of_tomorrow": None}, "none"),
        ("slurm", {"payload_users": ["mallory"]}, "sudo"),
        ("slurm", {}, "environment"),
    ],
)
def test_in_an_embedded_system_no_request_chooses_programs_of_its_account(
    type_: str, options: dict[str, object], identity: str, operator: Client, mine: RowsOfVO
) -> None:
    ComputingElement.objects.filter(pk=mine.ce.pk).update(type="slurm", options={})
    before = decided(mine.ce)
    form = evil(type=type_, options=json.dumps(options), identity=identity)
    for page, body in (
        (change(mine.ce), form),
        (f"{change(mine.ce)}?_popup=1", {**form, "_popup": "1"}),
        (add(ComputingElement), {**form, "site": str(mine.site.pk), "name": "new"}),
    ):
        (sentence,) = [text for texts in errors_of(operator.post(page, body)).values() for text in texts]
        assert "start the system with WMS_CE_PROGRAMS_OVER_HTTP=true" in sentence
    operator.post(change(mine.ce), {**form, "_saveasnew": "1"})
    assert decided(mine.ce) == before
    assert not ComputingElement.objects.filter(site=mine.site).exclude(pk=mine.ce.pk).exists()


def test_in_an_embedded_system_no_option_that_chooses_a_program_is_removed(operator: Client, mine: RowsOfVO) -> None:
    """Without `host` the commands would run on this machine."""
    options = {"host": "login.example.org", "max_pending": 1}
    ComputingElement.objects.filter(pk=mine.ce.pk).update(type="slurm", options=options)
    form = evil(type="slurm", identity="none")
    (sentence,) = errors_of(operator.post(change(mine.ce), {**form, "options": "{}"}))["options"]
    assert "so host cannot be set here" in sentence
    more = {**form, "options": json.dumps({**options, "max_pending": 9})}
    assert operator.post(change(mine.ce), more).status_code == 302
    assert decided(mine.ce)[2:] == ("slurm", {**options, "max_pending": 9}, "none")


def test_in_an_embedded_system_no_request_names_a_directory_of_its_account(
    operator: Client, mine: RowsOfVO, settings: Settings
) -> None:
    """A pilot would write `bin/ls` there, as output of a VO that is called `bin`."""
    form = {"name": "home", "vos": [str(mine.vo.pk)], "url": "file:///home/alice"}
    (sentence,) = errors_of(operator.post(add(StorageElement), form))["url"]
    assert sentence.startswith("Pilots would read and write there under the account that started this embedded system")
    settings.WMS_CE_PROGRAMS_OVER_HTTP = True
    assert operator.post(add(StorageElement), form).status_code == 302
    settings.WMS_CE_PROGRAMS_OVER_HTTP = False
    element = StorageElement.objects.get(name="home")
    assert operator.post(change(element), {**form, "credential_for_pilots": "on"}).status_code == 302
    assert "url" in errors_of(operator.post(change(element), {**form, "url": "file:///home/alice/.ssh"}))


def test_outside_of_embedded_systems_operators_choose_programs(
    operator: Client, mine: RowsOfVO, settings: Settings
) -> None:
    settings.WMS_EMBEDDED = False
    form = evil(type="slurm", identity="none", options=json.dumps({"host": "h", "python": "/usr/bin/python3"}))
    assert operator.post(change(mine.ce), form).status_code == 302
    assert decided(mine.ce)[3] == {"host": "h", "python": "/usr/bin/python3"}


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
