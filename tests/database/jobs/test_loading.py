"""`manage.py load_replicas`: it loads all lines of a file or none, and reports each wrong line by its number."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from resources.models import Replica, ReplicaChange
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _sample() -> None:
    factories.make_vo(name="lhcb")
    factories.make_vo(name="atlas")
    factories.make_storage_element(name="CERN-disk")
    factories.make_storage_element(name="RAL-disk")


def load(tmp_path: Path, content: str | bytes, *options: str) -> str:
    file = tmp_path / "replicas.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    said = StringIO()
    call_command("load_replicas", str(file), *options, stdout=said)
    return said.getvalue()


def refusal(tmp_path: Path, content: str | bytes, *options: str) -> str:
    with pytest.raises(CommandError) as refused:
        load(tmp_path, content, *options)
    assert not Replica.objects.exists()
    assert not ReplicaChange.objects.exists()
    return str(refused.value)


def rows() -> list[tuple[object, ...]]:
    columns = ("vo__name", "lfn", "storage_element__name", "size_bytes", "checksum")
    return list(Replica.objects.order_by("vo__name", "lfn", "storage_element__name").values_list(*columns))


def test_columns_may_be_named_in_any_order_or_have_the_default_order(tmp_path: Path) -> None:
    assert load(tmp_path, "/lhcb/a,CERN-disk,5,adler32:00000001\n/atlas/b,RAL-disk\n") == (
        "2 replicas read: 2 new, 0 changed.\n"
    )
    expected = [("atlas", "/atlas/b", "RAL-disk", None, ""), ("lhcb", "/lhcb/a", "CERN-disk", 5, "adler32:00000001")]
    assert rows() == expected
    named = '\ufeffstorage_element,lfn,size_bytes\r\nCERN-disk,"/lhcb/a, b",\r\nRAL-disk,/lhcb/a,6\r\n'
    assert load(tmp_path, named) == "2 replicas read: 2 new, 0 changed.\n"
    assert ("lhcb", "/lhcb/a, b", "CERN-disk", None, "") in rows()


def test_a_file_that_is_loaded_again_changes_what_differs_and_marks_nothing(tmp_path: Path) -> None:
    load(tmp_path, "/lhcb/a,CERN-disk,5\n/lhcb/b,CERN-disk,5\n")
    assert list(ReplicaChange.objects.values_list("vo__name", "lfn")) == [("lhcb", "")]
    assert load(tmp_path, "/lhcb/a,CERN-disk,5\n/lhcb/b,CERN-disk,6\n") == "2 replicas read: 0 new, 1 changed.\n"
    assert ReplicaChange.objects.count() == 1


def test_csv_names_are_read_unchanged(tmp_path: Path) -> None:
    names = [
        "/lhcb/a\\tb\\N",
        "/lhcb/\\.",
        "/lhcb/ü ñ 日本",
        '/lhcb/say "a, b"',
        "/lhcb/.hidden..x",
        "/lhcb/'; --",
        "/lhcb/%s",
    ]
    quoted = (name.replace('"', '""') for name in names)
    load(tmp_path, "".join(f'"{name}",CERN-disk,,\r\n\r\n' for name in quoted))
    assert sorted(str(lfn) for _, lfn, *_ in rows()) == sorted(names)


def test_lines_without_the_last_cells_and_columns_in_any_order_are_read_alike(tmp_path: Path) -> None:
    content = "checksum,storage_element,lfn\n,CERN-disk,/lhcb/a\nadler32:00000001,RAL-disk,/lhcb/a\n"
    assert load(tmp_path, content) == "2 replicas read: 2 new, 0 changed.\n"
    assert rows() == [
        ("lhcb", "/lhcb/a", "CERN-disk", None, ""),
        ("lhcb", "/lhcb/a", "RAL-disk", None, "adler32:00000001"),
    ]


def test_all_files_belong_to_the_vo_that_is_named(tmp_path: Path) -> None:
    load(tmp_path, "/lhcb/a,CERN-disk\n", "--vo", "atlas")
    assert rows() == [("atlas", "/lhcb/a", "CERN-disk", None, "")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/lhcb/b", "at least"),
        ("/lhcb/b,", "at least"),
        (",CERN-disk", "at least"),
        ("/lhcb//b,CERN-disk", "empty parts"),
        ("/lhcb/../b,CERN-disk", '".."'),
        ("/lhcb/.,CERN-disk", '"."'),
        ("/lhcb/b\t,CERN-disk", "control characters"),
        (" ,CERN-disk", "absolute path"),
        ("/lhcb/b,CERN-disk,1," + "x" * 100, "sha256"),
        ("/lhcb/b,CERN-disk,\u0663", "whole number"),
        ("lhcb/b,CERN-disk", "absolute path"),
        ("/lhcb/b,CERN-disc", 'Did you mean "CERN-disk"'),
        ("/nobody/b,CERN-disk", "--vo"),
        ("/lhcb/b,CERN-disk,-1", "whole number"),
        ("/lhcb/b,CERN-disk,9223372036854775808", "whole number"),
        ("/lhcb/b,CERN-disk,1.5", "whole number"),
        ("/lhcb/b,CERN-disk,1,md5:x", "sha256"),
        ("/lhcb/b,CERN-disk,1,,x", "more cells"),
        ("/lhcb/a,CERN-disk,7", "line 1"),
        ("/lhcb/\0b,CERN-disk", "Line 3"),
    ],
)
def test_a_wrong_line_is_reported_by_number_and_nothing_is_loaded(tmp_path: Path, line: str, words: str) -> None:
    said = refusal(tmp_path, f"/lhcb/a,CERN-disk\n\n{line}\n/lhcb/c,CERN-disk\n")
    assert "Line 3" in said
    assert words in said


def test_the_first_of_many_wrong_lines_are_reported(tmp_path: Path) -> None:
    said = refusal(tmp_path, "/lhcb/a,CERN-disk\n" + "x,y\n" * 100)
    assert said.count("\n") == 20
    assert "Line 21 " in said
    assert "Line 22 " not in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("lfn,storage\n/lhcb/a,CERN-disk\n", '"storage_element"'),
        ("lfn,size_bytes\n/lhcb/a,5\n", "must name lfn and storage_element"),
        (b"/lhcb/a,CERN-disk\n/lhcb/\xff,CERN-disk\n", "UTF-8"),
        ('/lhcb/a,"CERN-disk\n', "not CSV"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    assert words in refusal(tmp_path, content)


def test_a_missing_file_and_an_unknown_vo_are_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("load_replicas", str(tmp_path / "nothing.csv"))
    assert 'Did you mean "lhcb"' in refusal(tmp_path, "/lhcb/a,CERN-disk\n", "--vo", "lhbc")
