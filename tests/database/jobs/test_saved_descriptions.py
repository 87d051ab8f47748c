"""Descriptions that users save under names."""

import pytest

from tests.factories import NOW, make_user
from wms.accounts.models import User
from wms.jobs.models import SavedDescription, SavedSyntax
from wms.jobs.services import saved_descriptions
from wms.kernel.errors import ConflictError, NotFoundError, RejectedError

pytestmark = pytest.mark.django_db


def save(owner: User, *, name: str = "scan", text: str = "[ ]") -> saved_descriptions.Saved:
    return saved_descriptions.save(
        owner=owner, name=name, syntax=SavedSyntax.JDL, text=text, files=[["sha256:1", "run.sh"]], now=NOW
    )


def test_a_description_is_saved_as_it_was_written() -> None:
    alice = make_user()
    saved = save(alice, text="[ // half\n")
    row = SavedDescription.objects.get(owner=alice)
    assert (row.name, row.syntax, row.text, row.files) == ("scan", "jdl", "[ // half\n", [["sha256:1", "run.sh"]])
    assert not saved.replaced


def test_saving_under_an_existing_name_replaces_own_descriptions_only() -> None:
    alice, bob = make_user(), make_user()
    save(bob, text="bob's")
    save(alice, text="first")
    assert save(alice, text="second").replaced
    assert set(SavedDescription.objects.values_list("owner__username", "text")) == {
        (alice.username, "second"),
        (bob.username, "bob's"),
    }


def test_a_user_keeps_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_descriptions, "MAX_SAVED", 2)
    alice = make_user()
    save(alice, name="first")
    save(alice, name="second")
    with pytest.raises(ConflictError, match="You have 2 saved descriptions"):
        save(alice, name="third")
    assert save(alice, name="second", text="new").replaced
    save(make_user(), name="third")


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("", "x", "save_as"),
        ("  ", "x", "save_as"),
        ("n" * 65, "x", "save_as"),
        ("two\nlines", "x", "save_as"),
        ("scan", "x" * (saved_descriptions.MAX_BYTES + 1), "description"),
        ("scan", "\0", "description"),
    ],
)
def test_invalid_saved_descriptions_are_refused(name: str, text: str, field: str) -> None:
    with pytest.raises(RejectedError) as refusal:
        save(make_user(), name=name, text=text)
    assert list(refusal.value.errors) == [field]
    assert not SavedDescription.objects.exists()


def test_only_the_owner_deletes_a_description() -> None:
    alice = make_user()
    pk = save(alice).description.pk
    with pytest.raises(NotFoundError):
        saved_descriptions.delete(pk, owner=make_user())
    assert saved_descriptions.delete(pk, owner=alice) == "scan"
    assert not SavedDescription.objects.exists()
