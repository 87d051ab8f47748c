"""Configurations of DIRAC: the reader of CFG files, and what the report says of each option."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import examples
from wms.configuration.dirac.cfg import MAX_BYTES
from wms.configuration.dirac.convert import NotDiracError, convert
from wms.configuration.schema import check

INSTALLATIONS = sorted((Path(__file__).parents[2] / "database" / "configuration" / "dirac").glob("*.cfg"))
#: Texts of the three installations that are secrets, or where one is.
SECRETS = (
    "correct-horse-battery",
    "/opt/aurora/secret/id_of_desk",
    "hostkey.pem",
    "hunter2",
    "very-private",
    "eyJhbGciOi",
    "s3cr3t-of-iam",
    "another-secret",
)

VO = "Registry { VO { aurora { } } }\n"
SITE = "Resources {{ Sites {{ A {{ A.B.c {{ {} }} }} }} }}"
QUEUE = "CEs {{ ce {{ CEType = SSH\n Queues {{ q {{\n {} \n}} }} }} }}"


def converted(text: str, *, setup: str = "", vo: str = "") -> tuple[str, list[str]]:
    """Return our file, and the lines of the report."""
    ours, report = convert({"d.cfg": text.encode()}, setup=setup, vo=vo)
    return ours, list(report.lines())


def said_of(path: str, text: str) -> str:
    """Return what the report says of an option."""
    _, lines = converted(text)
    (line,) = (line for line in lines if re.match(rf"d\.cfg:[0-9]+: [a-z ]+: {re.escape(path)}(?= |$)", line))
    return line.split(": ", 1)[1].replace(f" {path}", "", 1)


# ---- The reader ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("vos:\n- {name: lhcb}\n", "line 1: this line is neither an option (name = value) nor a section"),
        ('{"vos": []}\n', "line 1: there is no name of a section before this {"),
        ("vos:\n- name\n", "line 1: this line is neither an option (name = value) nor a section"),
        ("[Registry]\nkey = value\n", "line 1: this line is neither an option (name = value) nor a section"),
        ("Registry\n", "line 1: this line is neither an option (name = value) nor a section"),
        ("A = 1\nRegistry\n{\n  VO\n  {\n  }\n", "line 2: the section that begins here is not closed; a } is missing"),
        ("Registry { }\n}\n", "line 2: this } closes no section"),
        ("Registry }\n", "line 1: this } closes no section"),
        ("Registry {\n = value\n}\n", "line 2: there is no name before this ="),
        ("A {" * 21, "line 1: sections are nested deeper than 20 levels"),
        (b"Registry { }\n# \xe9\n", "line 2: not UTF-8: byte 16 of the file is wrong"),
        (b"\x00", "line 1: the character U+0000 is not allowed here"),
        (b" " * (MAX_BYTES + 1), "line 1: the file is larger than 16 MB"),
    ],
)
def test_what_is_not_a_cfg_file_is_refused_with_its_line(source: str | bytes, problem: str) -> None:
    with pytest.raises(NotDiracError) as refusal:
        convert({"d.cfg": source.encode() if isinstance(source, str) else source})
    assert str(refusal.value) == f"d.cfg, {problem}."


@pytest.mark.parametrize("text", ["", "# nothing\n", "host = db\npassword = hunter2\n"])
def test_a_file_without_sections_of_dirac_is_refused(text: str) -> None:
    with pytest.raises(NotDiracError, match="no section Registry, Resources or Operations") as refusal:
        converted(text)
    assert "hunter2" not in str(refusal.value)


def test_braces_and_options_may_stand_in_one_line_or_in_many() -> None:
    in_one = "\ufeffRegistry { VO { aurora { } } Groups { g { VO = aurora } } }"
    in_many = in_one.removeprefix("\ufeff").replace("{", "\r\n{\r\n").replace("}", "\r\n}\r\n").replace(" = ", "=")
    assert converted(in_one)[0] == converted(in_many)[0]


def test_a_repeated_option_counts_once_and_a_later_file_before_an_earlier_one() -> None:
    first = "Registry { Users { al { DN = /CN=1\n DN = /CN=2\n DN += /CN=3\n } } }"
    second = "Registry { Users { al { DN = /CN=4\n } } }"
    assert "[/CN=2, /CN=3]" in converted(first)[0]
    assert said_of("Registry/Users/al/DN", second) == "taken: -> user al: dns"
    ours, report = convert({"a.cfg": first.encode(), "b.cfg": second.encode()})
    assert "[/CN=4]" in ours
    assert list(report.lines())[:3] == [
        "a.cfg:1: not taken: Registry/Users/al/DN (Registry/Users/al/DN at a.cfg:2 counts instead)",
        "a.cfg:2: not taken: Registry/Users/al/DN (Registry/Users/al/DN at b.cfg:1 counts instead)",
        "b.cfg:1: taken: Registry/Users/al/DN -> user al: dns",
    ]


# ---- The report ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", INSTALLATIONS, ids=lambda path: path.stem)
def test_each_option_has_one_line_and_no_secret_is_repeated(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ours, lines = converted(text)
    written = [
        (number, line.split("=")[0].strip())
        for number, line in enumerate(text.split("\n"), start=1)
        if "=" in line and "+=" not in line and not line.lstrip().startswith("#")
    ]
    told = [
        re.match(r"d\.cfg:([0-9]+): (?:taken|changed|not taken): (.*?)(?: -> .*)?(?: \(.*\))?$", line) for line in lines
    ]
    assert [(int(each[1]), each[2].rpartition("/")[2]) for each in told if each] == written
    counts = dict(re.findall(r"([0-9]+) (taken|changed|not taken|options)", lines[-1])[::-1])
    numbers = {word: int(number) for number, word in counts.items()}
    assert numbers.pop("options") == sum(numbers.values()) == len(written)
    assert "secret, not copied" in "".join(lines)
    everything = ours + "".join(lines)
    assert [secret for secret in SECRETS if secret in everything] == []


NAMES = st.sampled_from(
    [
        *("DIRAC", "Registry", "Resources", "Operations", "Systems", "VO", "Users", "Groups", "Sites", "CEs", "Queues"),
        *(
            "StorageElements",
            "Setups",
            "Production",
            "Defaults",
            "JobScheduling",
            "RunningLimit",
            "MatchingDelay",
            "Owner",
        ),
        *("aurora", "Aurora", "alice", "A.B.c", "ce", "q", "WorkloadManagement", "Agents", "SiteDirector", "Computing"),
        *("OSCompatibility", "CEDefaults", "SSH", "GFAL2_HTTPS", "a name", "$x"),
    ]
)
OPTIONS = st.sampled_from(
    [
        *(
            "VO",
            "DN",
            "Users",
            "JobShare",
            "Properties",
            "Suspended",
            "DefaultGroup",
            "VOAdmin",
            "Setup",
            "CEType",
            "Site",
        ),
        *(
            "VirtualOrganization",
            "SSHHost",
            "SSHPort",
            "SSHUser",
            "BatchSystem",
            "Pilot",
            "Platform",
            "OS",
            "architecture",
        ),
        *("CPUTime", "maxCPUTime", "SI00", "maxWallTime", "MaxRAM", "Tag", "RequiredTag", "WholeNode", "CEQueueName"),
        *(
            "Protocol",
            "Host",
            "Port",
            "Path",
            "BaseSE",
            "SE",
            "CE",
            "CheckJobLimits",
            "EnableSharesCorrection",
            "alice",
        ),
    ]
)
VALUES = st.sampled_from(
    [
        *(
            "",
            "aurora",
            "alice, bob",
            "Aurora",
            "/CN=a, /CN=b",
            "1",
            "0",
            "-1",
            "99999999999999",
            "1.5",
            "many",
            "True",
        ),
        *(
            "no",
            "SSH",
            "SLURM",
            "Local",
            "ARC",
            "any",
            "A.B.c",
            "https",
            "file",
            "h.example.org",
            "u@h:22",
            "a:b@h",
            "/p",
        ),
        *("GPU, 4Processors", "${HOME}", "x" * 600, "JobSharing, Pilot", "Production", "null", "2026-01-01", "~", "é{"),
    ]
)


def _text(tree: list[tuple[str, object]]) -> str:
    return "".join(
        f"{name}\n{{\n{_text(value)}}}\n" if isinstance(value, list) else f"{name} = {value}\n" for name, value in tree
    )


TREES = st.recursive(
    st.lists(st.tuples(OPTIONS, VALUES), max_size=3),
    lambda below: st.lists(st.tuples(NAMES, below) | st.tuples(OPTIONS, VALUES), max_size=4),
    max_leaves=30,
)
FULL = {
    "Registry": ["VO", "Users", "Groups"],
    "Resources": ["Sites", "StorageElements", "Computing"],
    "Operations": ["Defaults", "aurora"],
    "Systems": ["WorkloadManagement"],
}


@given(
    trees=st.fixed_dictionaries(
        {name: st.fixed_dictionaries(dict.fromkeys(below, TREES)) for name, below in FULL.items()}
    )
)
@settings(max_examples=examples(50))
def test_any_configuration_becomes_a_valid_file_and_all_its_options_are_counted(
    trees: dict[str, dict[str, list[tuple[str, object]]]],
) -> None:
    text = VO + _text([(name, list(below.items())) for name, below in trees.items()])
    ours, report = convert({"d.cfg": text.encode()})
    check(ours.encode(), environ={})
    lines = list(report.lines())
    assert sum(line.startswith("d.cfg:") for line in lines) == text.count(" = ") == len(report.options)


# ---- Decisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ("CPUTime = 3600\n maxCPUTime = 9", "cpu_time_s: 3600"),
        ("maxCPUTime = 60", "cpu_time_s: 3600"),
        ("maxCPUTime = 60\n SI00 = 2500", "cpu_time_s: 36000"),
        ("maxCPUTime = 99999999\n SI00 = 250", "cpu_time_s: 64800000"),
        ("SI00 = 2500", "cpu_time_s: 86400"),
        ("CPUTime = soon", "cpu_time_s: 86400"),
        ("maxWallClockTime = 10", "wall_time_s: 600"),
        ("MaxProcessors = 4", "processors: 4"),
        ("NumberOfProcessors = 8\n MaxProcessors = 4", "processors: 8"),
        ("MaxRAM = 2000", "memory_mb: 2000"),
        ("LocalCEType = Pool/Singularity", "container: true"),
        ("Tag = GPU, MultiProcessor, 8Processors, 4GB", "tags: [GPU]"),
        ("Tag = a\n RequiredTag = b", "tags: [a, b]"),
        ("Tag = ${HOME}", "tags: ['$${HOME}']"),
        ("OS = EL_9\n architecture = x86_64", "platforms: [x86_64_EL_9]"),
        ("OS = EL_9\n architecture = x86_64\n Platform = x86_64-el9", "platforms: [x86_64-el9]"),
    ],
)
def test_numbers_and_tags_of_a_queue(options: str, key: str) -> None:
    ours, _ = converted(SITE.format(QUEUE.format(options)))
    assert key in ours


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("CEType = SSH", "ssh"),
        ("CEType = SSH\n BatchSystem = SLURM", "slurm"),
        ("CEType = Local\n BatchSystem = Condor", "htcondor"),
        ("CEType = Local", "local"),
        ("CEType = SSHCondor", "htcondor"),
    ],
)
def test_types_of_ces_with_a_backend(options: str, kind: str) -> None:
    ours, _ = converted(SITE.format(f"CEs {{ ce {{ {options}\n Queues {{ q {{ }} }} }} }}"))
    assert f"type: {kind}\n" in ours
    assert "max_waiting_pilots" not in ours


@pytest.mark.parametrize("kind", ["ARC", "AREX", "CREAM", "HTCondorCE", "Cloud", "SSHTorque", "SSHBatch", "Vac"])
def test_no_pilots_are_sent_to_ces_without_a_backend(kind: str) -> None:
    ours, _ = converted(SITE.format(f"CEs {{ ce {{ CEType = {kind}\n Queues {{ q {{ }} }} }} }}"))
    assert f"middleware: {kind}\n" in ours
    assert "max_waiting_pilots: 0" in ours


def test_what_names_no_vo_that_is_taken_does_not_serve_all() -> None:
    for where in (
        "VO = other\n",
        "CEs { ce { VO = other\n Queues { q { } } } }",
        "CEs { ce { Queues { q { VO = other\n } } } }",
    ):
        ours, lines = converted(VO + SITE.format(where))
        assert "sites:" not in ours
        assert [line for line in lines[:-1] if ": not taken: " not in line and "note" not in line] == []
    element = "Resources { StorageElements { S { VO = other\n P { Protocol = https\n Host = h\n } } } }"
    assert "storage_elements:" not in converted(VO + element)[0]
    director = "Systems { WorkloadManagement { Agents { SiteDirector { Site = Gone\n } } } }"
    assert "directors:" not in converted(VO + director)[0]


def test_names_that_are_not_ours_or_collide_are_not_taken() -> None:
    users = "Registry { Users { al { DN = /CN=1\n }\n AL { DN = /CN=2\n }\n a b { DN = /CN=3\n } } }"
    assert said_of("Registry/Users/AL/DN", users) == (
        'not taken: ("AL" differs from "al" at d.cfg:1 only in letter case)'
    )
    assert said_of("Registry/Users/a b/DN", users).startswith('not taken: ("a b" is not a name here: a user name has')
    queues = "CEs { ce { Queues { q { }\n other { CEQueueName = Q\n } } } }"
    path = "Resources/Sites/A/A.B.c/CEs/ce/Queues/other/CEQueueName"
    assert said_of(path, SITE.format(queues)).startswith('not taken: ("Q" differs from "q" at d.cfg:')


def test_a_limit_counts_for_the_vos_whose_sections_state_it() -> None:
    limits = "JobScheduling {{ RunningLimit {{ A.B.c {{ JobType {{ T = {}\n }} }} }} }}"
    two = "Registry { VO { aurora { }\n vega { } } }\n" + SITE.format("")
    of_all = converted(two + f"Operations {{ Defaults {{ {limits.format(1)} }} }}")[0]
    assert "limits:\n- scope: {site: A.B.c, job_type: T}\n  running: 1\n" in of_all
    of_each = converted(two + f"Operations {{ Defaults {{ {limits.format(1)} }} vega {{ {limits.format(2)} }} }}")[0]
    assert "{vo: aurora, site: A.B.c, job_type: T}\n  running: 1\n" in of_each
    assert "{vo: vega, site: A.B.c, job_type: T}\n  running: 2\n" in of_each
    switched_off = f"Operations {{ Defaults {{ {limits.format(1)} JobScheduling {{ CheckJobLimits = no\n }} }} }}"
    assert "limits:" not in converted(two + switched_off)[0]


def test_the_chosen_setup_decides_which_options_are_read() -> None:
    text = (
        VO
        + "DIRAC { Setup = Main\n }\n"
        + (
            "Operations { Main { JobScheduling { EnableSharesCorrection = True\n } }\n"
            " Test { JobScheduling { EnableSharesCorrection = False\n } } }"
        )
    )
    assert "history_fair_share: true" in converted(text)[0]
    ours, lines = converted(text, setup="Test")
    assert "setup: Test" in ours
    assert "history_fair_share" not in ours
    assert "d.cfg:2: not taken: DIRAC/Setup (--setup chooses another one)" in lines


def test_groups_without_a_vo_need_the_one_of_the_command() -> None:
    text = "Registry { Groups { g { JobShare = 5\n } } }"
    assert converted(text)[0] == ""
    assert "- {name: g, vo: aurora, priority: 5}" in converted(text, vo="aurora")[0]
