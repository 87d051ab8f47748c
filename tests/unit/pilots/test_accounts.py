"""The Unix accounts that a computing element's options name."""

import pytest

from pilots.domain.accounts import flaw_of_accounts, of_backend, payload_users


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
