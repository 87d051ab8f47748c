"""Options of a computing element of any backend."""

import pytest

from resources.domain.ce_options import (
    flaw_of_accounts,
    flaw_of_environment,
    gives_other_accounts,
    of_backend,
    payload_users,
    runs_as_the_server,
)


@pytest.mark.parametrize(
    ("told", "names"),
    [
        (["a", "b", "a"], ("a", "b")),
        ([], ()),
        ("wms01", ()),
        ([1], ()),
        ([""], ()),
        (
            ["wms01", "DOMAIN\\wms02", "wms03@example.org", "rooter"],
            ("wms01", "DOMAIN\\wms02", "wms03@example.org", "rooter"),
        ),
        (["wms01", "root"], ()),
        (["#0"], ()),
        (["-s"], ()),
        (["wms01\n"], ()),
        (["a b"], ()),
        (None, ()),
    ],
)
def test_accounts_are_a_list_of_names(told: object, names: tuple[str, ...]) -> None:
    assert payload_users({"payload_users": told}) == names
    assert (flaw_of_accounts({"payload_users": told}, sudo=True) is None) == bool(names)


def test_without_accounts_there_is_no_sudo() -> None:
    assert flaw_of_accounts({"host": "h"}, sudo=False) is None
    flaw = flaw_of_accounts({"host": "h"}, sudo=True)
    assert flaw is not None
    assert "payload_users" in flaw


def test_the_backend_sees_only_its_own_options() -> None:
    assert of_backend({"host": "h", "payload_users": ["a"]}) == {"host": "h"}


@pytest.mark.parametrize(
    ("type_", "options", "here"),
    [
        ("local", {}, True),
        ("local", {"python": "python3"}, True),
        ("ssh", {"host": "127.0.0.1"}, True),
        ("ssh", {"host": "127.8.8.8", "user": "wms"}, True),
        ("ssh", {"host": "::1"}, True),
        ("ssh", {"host": "LocalHost"}, True),
        ("ssh", {"host": "localhost.localdomain"}, True),
        *(
            ("ssh", {"host": host}, True)
            for host in (
                "[::1]",
                "::1%lo",
                "0:0::1",
                "::ffff:127.0.0.1",
                "0::ffff:7f00:1",
                "::ffff:127.8.8.8",
                "::",
                "0.0.0.0",
                "0",
                "127.1",
                "127.0.1",
                "2130706433",
                "0x7f.1",
                "0X7F000001",
                "0177.0.0.1",
                "017700000001",
                "127.0x0.01",
                "localhost.",
                "localhost6",
                "localhost4.localdomain4",
                "ip6-localhost",
                "IP6-Loopback",
                "www.localhost",
                "wms01",
                "WMS01.example.org",
                "wms01.example.org.",
            )
        ),
        *(
            ("ssh", {"host": host}, False)
            for host in (
                "128.1",
                "126.255.255.255",
                "2147483648",
                "4294967296",
                "127.0.0.0.1",
                "127.256.1",
                "127.0.0.x",
                "0x",
                "08",
                "127.",
                "::2",
                "::ffff:10.0.0.1",
                "fe80::1%eth0",
                "localhost.example.org",
                "wms01.example.com",
                "wms02",
                "9" * 5000,
                "",
                "[",
                "127..1",
            )
        ),
        ("ssh", {"host": "localhost", "user": "wmspilot"}, False),
        ("ssh", {"host": "ui.example.org"}, False),
        ("ssh", {}, False),
        ("slurm", {"host": "localhost"}, False),
        ("htcondor", {}, False),
    ],
)
def test_pilots_running_as_server_processes_are_recognized(type_: str, options: dict[str, object], here: bool) -> None:
    assert runs_as_the_server(type_, options, account="wms", machine="wms01.example.org") is here


@pytest.mark.parametrize(
    ("identity", "accounts", "other"),
    [
        ("sudo", ["wms01", "wms02"], True),
        ("sudo", ["wms01", "wms"], False),
        ("sudo", [], False),
        ("sudo", "wms01", False),
        ("environment", ["wms01"], False),
        ("none", ["wms01"], False),
    ],
)
def test_payloads_have_other_accounts_by_sudo_only(identity: str, accounts: object, other: bool) -> None:
    assert gives_other_accounts({"payload_users": accounts}, identity, account="wms") is other


@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "TZ", "SLURM_CONF", "CONDOR_CONFIG", "_CONDOR_COLLECTOR_HOST"])
def test_batch_system_variables_may_be_set(name: str) -> None:
    assert flaw_of_environment({"environment": {name: "x"}}) is None


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ("LANG=C", "must be an object of names and values"),
        ({"A-B": "x"}, "is not a valid variable name"),
        ({1: "x"}, "is not a valid variable name"),
        ({"LD_PRELOAD": "/tmp/x.so"}, "remove LD_PRELOAD"),
        ({"LANG": "C\nX=1"}, "must be a text in one line"),
        ({"LANG": 1}, "must be a text in one line"),
    ],
)
def test_other_variables_and_values_are_refused_by_name(environment: object, words: str) -> None:
    flaw = flaw_of_environment({"environment": environment})
    assert flaw is not None
    assert words in flaw
