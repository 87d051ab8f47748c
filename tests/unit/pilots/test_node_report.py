"""Reports of nodes, whatever they contain, as labels and readable values."""

import pytest

from pilots.domain.node_report import amount_mb, checks, missed, properties


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0 MB"),
        (0.4, "0 MB"),
        (500, "500 MB"),
        (1023, "1023 MB"),
        (1024, "1.0 GB"),
        (3000, "2.9 GB"),
        (77814.62890625, "76 GB"),
        (1024**2, "1.0 TB"),
        (20 * 1024**2, "20 TB"),
        (-2048, "-2.0 GB"),
    ],
)
def test_megabytes_are_shown_in_suitable_units(amount: float, words: str) -> None:
    assert amount_mb(amount) == words


def test_agent_reports_are_shown_with_units_and_lists() -> None:
    told = {
        "user": 0,
        "proxy": "http://squid.site.example:3128",
        "memory_mb": 24105.1484375,
        "load": [4.44580078125, 1.0, 2.38818359375],
        "cvmfs": ["lhcb.cern.ch", "atlas.cern.ch"],
        "speed": 0.577,
        "clock_skew_s": 0.2303304672241211,
        "container_runtime": None,
        "user_namespaces": True,
        "scratch": [
            {"variable": "TMPDIR", "path": "/scratch/1", "free_mb": 77046, "flaw": None},
            {"variable": "", "path": "/tmp", "free_mb": 0, "flaw": "cannot be written to: Read-only file system"},
        ],
        "ok": True,
        "batch_id": "4711",
        "checks": [],
        "flaws": [],
    }
    assert [tuple(each) for each in properties(told)] == [
        ("Speed (1: the reference core)", "0.58"),
        ("Load (1, 5, 15 minutes)", "4.45, 1, 2.39"),
        ("Memory", "24 GB"),
        (
            "Scratch directories",
            "/scratch/1 (TMPDIR): 75 GB free\n/tmp: cannot be written to: Read-only file system",
        ),
        ("CVMFS repositories", "lhcb.cern.ch, atlas.cern.ch"),
        ("Container runtime", ""),
        ("User namespaces", "yes"),
        ("Clock ahead by", "0.2 s"),
        ("Proxy to the server", "http://squid.site.example:3128"),
        ("Unix user id", "0"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "label", "words"),
    [
        ("memory_mb", "lots", "Memory", "lots"),
        ("memory_mb", 10**400, "Memory", str(10**400)),
        ("memory_mb", 1e300, "Memory", "1e+300"),
        ("memory_mb", True, "Memory", "yes"),
        ("scratch", "/tmp", "Scratch directories", "/tmp"),
        ("scratch", [1, {}, {"path": ["a"], "free_mb": "x"}], "Scratch directories", ": \n['a']: x free"),
        ("swap_mb", 4096, "Swap", "4.0 GB"),
        ("disk_gb", 2, "Disk", "2.0 GB"),
        ("boot_s", 7200, "Boot", "2 h"),
        ("boot_s", 0.2303, "Boot", "0.2 s"),
        ("clock_ahead_s", -9000, "Clock ahead", "-2 h 30 min"),
        ("", [], "", ""),
        ("slots", [{"a_b": 1, "c": None}, {"a_b": 2}], "Slots", "a b: 1\nc: \na b: 2"),
        ("<b>", "<i>", "<b>", "<i>"),
        ("größe", {"x": [1, 2]}, "Größe", "x: 1, 2"),
    ],
)
def test_any_pilot_report_can_be_shown(name: str, value: object, label: str, words: str) -> None:
    assert [tuple(each) for each in properties({name: value})] == [(label, words)]


@pytest.mark.parametrize("told", [None, "x", 5, {}, [1, "x", None], [[]]])
def test_malformed_checks_and_node_problems_are_ignored(told: object) -> None:
    assert not checks({"checks": told})
    assert not missed({"flaws": told})


def test_checks_and_node_problems_are_shown_unchanged() -> None:
    told = {
        "checks": [{"name": "work_directory", "ok": True, "detail": "/tmp"}, {}],
        "flaws": [{"name": "software", "detail": "/cvmfs/a", "at": "2026-06-01T12:00:00+00:00"}, {"name": "x"}],
    }
    assert [tuple(each) for each in checks(told)] == [("work directory", True, "/tmp"), ("", False, "")]
    assert [tuple(each) for each in missed(told)] == [("software", "/cvmfs/a", "2026-06-01 12:00:00"), ("x", "", "")]
