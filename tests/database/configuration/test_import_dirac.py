"""`manage.py import_dirac`: installations of DIRAC of three ages, imported and configured; and its refusals."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from resources.domain.enums import ResourceState
from resources.models import Queue, Site, StorageElement
from taskqueues.models import Limit
from wms.accounts.models import VO, Group, User

pytestmark = pytest.mark.django_db

INSTALLATIONS = Path(__file__).parent / "dirac"


@pytest.fixture
def imported(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the configuration of an installation, which is configured now; a second time it changes nothing."""
    ours = tmp_path / "wms.yaml"
    run("import_dirac", str(INSTALLATIONS / request.param), "--output", str(ours))
    assert run("configure", str(ours))[0][0].startswith("+ vo ")
    assert run("configure", str(ours))[0] == ["nothing to change"]
    return ours


def run(*arguments: str) -> tuple[list[str], list[str]]:
    """Run a command; return its standard output and standard error."""
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue().splitlines(), err.getvalue().splitlines()


def shares() -> dict[str, tuple[str, float]]:
    """Return {group: (its VO, its share)}."""
    return {group.name: (group.vo.name, group.priority) for group in Group.objects.select_related("vo")}


def dns() -> dict[str, set[str]]:
    """Return {user: DNs}."""
    users = User.objects.exclude(dns=None).prefetch_related("dns")
    return {user.username: {row.dn for row in user.dns.all()} for user in users}


def cpu_times_s() -> dict[str, int]:
    return {queue.name: queue.cpu_time_s for queue in Queue.objects.all()}


def limits() -> set[tuple[str | None, str, int | None, float | None]]:
    """Return (site, type of jobs, running, delay in seconds) of each limit."""
    rows = Limit.objects.select_related("site", "ce__site")
    return {(str(row.site or (row.ce and row.ce.site)), row.job_type, row.running, row.delay_s) for row in rows}


@pytest.mark.parametrize("imported", ["aurora.cfg"], indirect=True)
def test_an_installation_of_2012_with_one_vo(imported: Path) -> None:
    assert sorted(VO.objects.get().setups) == ["Aurora-Certification", "Aurora-Production"]
    assert shares() == {"aurora_user": ("aurora", 1000), "aurora_prod": ("aurora", 3000)}
    assert dns() == {
        "alice": {"/DC=org/DC=example/O=Physik/CN=Alice Ångström"},
        "bob": {"/DC=org/DC=example/CN=Bob, the builder"},
    }
    # 1440 and 5760 minutes by SI00 of 2000 and 2500.
    assert cpu_times_s() == {"cream-pbs-aurora": 691_200, "long": 3_456_000, "batch": 36_000, "desk": 36_000}
    assert limits() == {("LCG.Nordlys.no", "MCSimulation", 150, None)}
    desk = Queue.objects.select_related("ce").get(name="desk").ce
    assert (desk.type, desk.options) == ("ssh", {"host": "desk.institute.example.org", "port": 2222, "user": "pilot"})
    assert set(Queue.objects.filter(max_waiting_pilots=0).values_list("name", flat=True)) == {
        "cream-pbs-aurora",
        "long",
        "batch",
    }


@pytest.mark.parametrize("imported", ["borealis.cfg"], indirect=True)
def test_an_installation_of_2019_with_three_vos(imported: Path) -> None:
    assert shares() == {
        "borealis_user": ("borealis", 200),
        "borealis_prod": ("borealis", 800),
        "polaris_user": ("polaris", 1000),
        "vega_user": ("vega", 0.5),
    }
    assert dns()["erik"] == {"/DC=org/DC=example/CN=Erik", "/DC=org/DC=new/CN=Erik the Second"}
    assert {user.username for user in User.objects.filter(is_active=False)} == {"freja"}
    assert set(User.objects.get(username="gunnar").memberships.values_list("group__name", flat=True)) == {
        "borealis_user"
    }
    assert cpu_times_s()["main"] == 172_800
    assert limits() == {
        ("LCG.Fjord.no", "", 20, None),
        ("LCG.Fjord.no", "", 100, None),
        ("LCG.Fjord.no", "MCSimulation", None, 10.0),
    }
    fjord = Site.objects.get(name="LCG.Fjord.no")
    assert set(fjord.vos.values_list("name", flat=True)) == {"borealis", "polaris"}
    assert StorageElement.objects.get().url == "https://dav.fjord.example.org:2880/data/user"


@pytest.mark.parametrize("imported", ["corona.cfg"], indirect=True)
def test_an_installation_of_2025_without_setups(imported: Path) -> None:
    assert VO.objects.get().setup == "Production"
    assert VO.objects.get().history_fair_share
    assert dns() == {"ines": {"/O=Corona/CN=Inês Peña"}, "juan": {"CN=Juan,O=Corona"}}
    gpu = Queue.objects.get(name="gpu")
    assert (gpu.cpu_time_s, gpu.processors, gpu.gpus, gpu.memory_mb) == (500_000, 16, 4, 128_000)
    assert (gpu.tags, gpu.required_tags, gpu.platforms) == (["GPU"], ["GPU"], ["x86_64-el9"])
    assert Queue.objects.select_related("ce").get(name="vm").ce.state == ResourceState.DRAINING
    assert limits() == {("LOCAL.Corona.es", "Merge", 10, None), ("LOCAL.Corona.es", "", 500, None)}


def test_the_file_goes_to_the_output_and_the_report_to_the_errors() -> None:
    out, err = run("import_dirac", str(INSTALLATIONS / "corona.cfg"))
    assert out[:2] == ["# Made from a configuration of DIRAC by import_dirac. It holds no secrets.", "vos:"]
    assert err[-2].startswith("52 options: ")
    assert err[-1] == "Next: wms-server configure FILE --dry-run"


def test_nothing_is_written_if_one_of_the_files_exists(tmp_path: Path) -> None:
    there, new = tmp_path / "wms.yaml", tmp_path / "report.txt"
    there.write_text("vos: []\n")
    source = str(INSTALLATIONS / "corona.cfg")
    with pytest.raises(CommandError, match=r"wms\.yaml cannot be written: File exists\. Nothing was written\."):
        run("import_dirac", source, "--output", str(there), "--report", str(new))
    assert there.read_text() == "vos: []\n"
    assert not new.exists()
    run("import_dirac", source, "--output", str(tmp_path / "other.yaml"), "--report", str(new))
    assert new.read_text().endswith("not taken.\n")


def test_what_cannot_be_read_or_taken_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"none\.cfg cannot be read: No such file or directory\.$"):
        run("import_dirac", str(tmp_path / "none.cfg"))
    wrong, output = tmp_path / "wrong.cfg", tmp_path / "wms.yaml"
    wrong.write_text("Registry\n{\n")
    with pytest.raises(CommandError) as refusal:
        run("import_dirac", str(wrong), "--output", str(output))
    assert str(refusal.value) == (
        f"{wrong}, line 1: the section that begins here is not closed; a }} is missing. Nothing was written."
    )
    wrong.write_text("Registry\n{\nHosts\n{\n}\n}\n")
    with pytest.raises(CommandError, match="no configuration was written; the report says why"):
        run("import_dirac", str(wrong), "--output", str(output))
    assert not output.exists()
