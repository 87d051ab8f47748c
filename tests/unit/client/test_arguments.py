"""Ids and ranges of a command line, filters, and the local files that descriptions name."""

import re
from argparse import ArgumentTypeError, Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.client import descriptions
from wms.client.commands.arguments import FILTERS, MOST_JOBS, filters_in, id_range, ids_in
from wms.client.descriptions import Description, LocalDescription
from wms.client.errors import WrongUsageError
from wms.client.sandbox_names import cfg_with_names, jdl_with_names
from wms.portal.search import KEYS

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def read(description: Description) -> list[LocalDescription]:
    """Read with a server that repeats the text in YAML."""
    return descriptions.read(description, read_yaml=lambda text: {"jobs": [{"executable": text}]})


RANGES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 50)), max_size=10)


@given(RANGES)
def test_ranges_name_each_of_their_ids_once_in_their_order(ranges: list[tuple[int, int]]) -> None:
    texts = [f"{first}-{first + more}" if more else str(first) for first, more in ranges]
    expected = [number for first, more in ranges for number in range(first, first + more + 1)]
    assert ids_in(map(id_range, texts)) == list(dict.fromkeys(expected))


@given(st.from_regex(r"[0-9]{1,4}(-[0-9]{1,4})?|[0-9a-z-]{0,6}", fullmatch=True))
def test_a_text_is_an_id_a_range_or_refused(text: str) -> None:
    first, dash, last = text.partition("-")
    is_valid = first.isdecimal() and (last.isdecimal() if dash else True)
    if is_valid and (not dash or int(first) <= int(last)):
        assert id_range(text) == range(int(first), int(last or first) + 1)
        return
    sentence = f"write {int(last)}-{int(first)}." if is_valid else "is not the id of a job; give its number"
    with pytest.raises(ArgumentTypeError, match=re.escape(sentence)):
        id_range(text)


def test_too_many_ids_are_refused() -> None:
    with pytest.raises(WrongUsageError, match="at most 100000 jobs"):
        ids_in([range(MOST_JOBS), range(MOST_JOBS, MOST_JOBS + 1)])
    assert len(ids_in([range(MOST_JOBS)])) == MOST_JOBS


def test_the_filters_are_those_of_the_portal() -> None:
    assert {name: each.parameter for name, each in FILTERS.items()} == dict(KEYS)


@pytest.mark.parametrize(
    ("words", "filters"),
    [
        (["status:failed", "SITE:A:B"], {"status": "failed", "site": "A:B"}),
        (["my", "sim"], {"job_name": "*my*sim*"}),
        (["sim-*"], {"job_name": "sim-*"}),
        (["7"], {"id": "7"}),
        (["since:2d"], {"submitted_after": (NOW - timedelta(days=2)).isoformat()}),
        (["before:2026-05-01"], {"submitted_before": "2026-05-01T00:00:00+00:00"}),
        (["before:2026-05-01T12:00:00Z"], {"submitted_before": "2026-05-01T12:00:00+00:00"}),
    ],
)
def test_words_are_filters(words: list[str], filters: dict[str, str]) -> None:
    assert filters_in(Namespace(), words, now=NOW) == filters


def named(text: str) -> str:
    return f"<{text}>"


@pytest.mark.parametrize(
    ("jdl", "replaced"),
    [
        ('InputSandbox = "a";', 'InputSandbox = "<a>";'),
        ('[InputSandbox={"a","b c"};X="a"]', '[InputSandbox={"<a>","<b c>"};X="a"]'),
        ('# InputSandbox = "a";\nInputSandbox = "a"', '# InputSandbox = "a";\nInputSandbox = "<a>"'),
        ('X = "InputSandbox = \\"a\\""; inputsandbox = "a"', 'X = "InputSandbox = \\"a\\""; inputsandbox = "<a>"'),
        ('InputSandbox = {"a" /* "b" */, // "c"\n "d"};', 'InputSandbox = {"<a>" /* "b" */, // "c"\n "<d>"};'),
        ('Environment = [ InputSandbox = "a" ];', 'Environment = [ InputSandbox = "a" ];'),
        ('[ E = [ InputSandbox = "a" ]; ]', '[ E = [ InputSandbox = "a" ]; ]'),
        ("InputSandbox = a;", 'InputSandbox = "<a>";'),
        ("InputSandbox = {a.sh, *.log,b c}", 'InputSandbox = {"<a.sh>", "<*.log>","<b c>"}'),
        ('JobName = my [job}; InputSandbox = {a,"b"}', 'JobName = my [job}; InputSandbox = {"<a>","<b>"}'),
        ('InputSandbox = "a, b";', 'InputSandbox = { "<a>", "<b>" };'),
        ('InputSandbox = strcat("a", "b");', 'InputSandbox = strcat("a", "b");'),
        ('X = InputSandbox; Y = "a";', 'X = InputSandbox; Y = "a";'),
        ('OutputSandbox = "a";', 'OutputSandbox = "a";'),
    ],
)
def test_only_files_of_the_input_sandbox_get_another_name_in_jdl(jdl: str, replaced: str) -> None:
    assert jdl_with_names(jdl, named) == replaced


@pytest.mark.parametrize(
    ("cfg", "replaced"),
    [
        ("InputSandbox = a, b c # d", "InputSandbox = <a>, <b c> # d"),
        ('InputSandbox = "a,""b"""', 'InputSandbox = "<a,"b">"'),
        ("inputsandbox += a#b\nX = a", "inputsandbox += <a#b>\nX = a"),
        ("# InputSandbox = a", "# InputSandbox = a"),
        # The server says what is wrong with these.
        *[(line, line) for line in ('InputSandbox = {"a", b}', "InputSandbox = a;", 'InputSandbox = "a"; # b')],
        ('InputSandbox = "a;", b;c', 'InputSandbox = "<a;>", <b;c>'),
    ],
)
def test_only_files_of_the_input_sandbox_get_another_name_in_cfg(cfg: str, replaced: str) -> None:
    assert cfg_with_names(cfg, named) == replaced


@given(st.text())
def test_a_jdl_without_an_input_sandbox_stays_as_it_is(text: str) -> None:
    assert jdl_with_names(text, named) == text or "inputsandbox" in text.lower()


def test_a_name_that_stays_is_not_written_anew() -> None:
    jdl = 'InputSandbox = {LFN:/a, "LFN:/b"};'
    assert jdl_with_names(jdl, str) == jdl


@pytest.mark.parametrize(
    "body",
    [
        {"jdl": 'InputSandbox = {"run_%(x)s.sh", %(files)s, all.sh, ./d%n/c}; Parameters.x = {a,b}; '
                'Parameters.files = {{LFN:/vo/a, "one.txt"},{two.txt}};'},
        {"input_sandbox": ["run_%(x)s.sh", "%(files)s", "all.sh", "./d%n/c"],
         "parameters": {"x": {"values": ["a", "b"]}, "files": {"values": [["LFN:/vo/a", "one.txt"], ["two.txt"]]}}},
        {"cfg": "InputSandbox = run_%(x)s.sh, %(files)s, all.sh, ./d%n/c\nParameters.x = a, b\n"
                'Parameters.files = one.txt, "two.txt"'},
    ],
)  # fmt: skip
def test_files_whose_names_the_parameters_make_go_along(body: dict[str, object], tmp_path: Path) -> None:
    for name in ("run_a.sh", "run_b.sh", "run.sh", "all.sh", "one.txt", "two.txt", "three.txt", "d0/c", "d1/c", "d/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    sent = LocalDescription(body, tmp_path).with_names(lambda path: f"<{path.relative_to(tmp_path)}>")
    assert sent["files"] == {
        **{name: f"<{name}>" for name in ("run_a.sh", "run_b.sh", "one.txt", "two.txt")},
        "./d0/c": "<d0/c>",
        "./d1/c": "<d1/c>",
    }
    assert "<all.sh>" in str(sent)
    assert "%(files)s" in str(sent)


def test_a_percent_sign_in_the_name_of_a_file_of_one_job_stays(tmp_path: Path) -> None:
    (tmp_path / "100%s.sh").write_text("")
    sent = LocalDescription({"input_sandbox": ["100%s.sh"]}, tmp_path).with_names(lambda path: path.name)
    assert sent == {"input_sandbox": ["100%s.sh"]}
    with pytest.raises(WrongUsageError, match="There is no file"):
        LocalDescription({"input_sandbox": ["%s.sh"]}, tmp_path).with_names(str)


def test_addresses_of_files_of_this_computer_are_paths(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("")
    here = ["file://run.sh", f"file://{file}", f"file://localhost{file}", f"FILE:{file}"]
    entries = [*here, "file://host/a", "gsiftp://host/a"]
    sent = LocalDescription({"input_sandbox": entries}, tmp_path).with_names(lambda path: f"new of {path.name}")
    assert sent == {"input_sandbox": [*["new of run.sh"] * 4, "file://host/a", "gsiftp://host/a"]}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('Executable = "a";', "jdl"),
        ("# a job\n[\nExecutable = a; // b\n]", "jdl"),
        ("[ Executable = a ]", "jdl"),
        ('Executable = "a"; CPUTime = 5', "jdl"),
        ("Executable = a\nCPUTime = 5", "cfg"),
        ('Executable = a\nArguments = "b; c"', "cfg"),
        ("Executable = a\nRequirements {\n  Memory = 4\n}", "cfg"),
        ('{"executable": "a"}', "executable"),
        ('[{"executable": "a"}]', "executable"),
    ],
)
@pytest.mark.parametrize("name", ["job", "job.txt", "my.job"])
def test_a_file_without_a_known_ending_is_judged_by_content(tmp_path: Path, text: str, form: str, name: str) -> None:
    (tmp_path / name).write_text(text)
    (job,) = read(tmp_path / name)
    assert list(job.body) == [form]


@pytest.mark.parametrize("name", ["job.yaml", "job.YML"])
def test_yaml_is_read_by_the_server(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("executable: run.sh\n")
    assert [job.body for job in read(str(tmp_path / name))] == [{"executable": "executable: run.sh\n"}]


def test_a_description_is_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "job.jdl"
    file.write_bytes('\ufeffJobName = "é";'.encode())
    assert read(file)[0].body == {"jdl": 'JobName = "é";'}
    for text in ('Executable = "a";\nJobName = "é";'.encode("latin-1"), b"\xef\xbb\xbf\r\n\xff"):
        file.write_bytes(text)
        with pytest.raises(WrongUsageError, match=r"job\.jdl: line 2 is not UTF-8; save the file as UTF-8\."):
            read(file)


def test_the_path_of_a_description_may_be_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("job.jdl", "my=job.jdl"):
        Path(name).write_text('Executable = "a";')
        for path in (name, str(tmp_path / name)):
            assert [job.body for job in read(path)] == [{"jdl": 'Executable = "a";'}]
    with pytest.raises(WrongUsageError, match=r"jbo\.jdl cannot be read"):
        read("jbo.jdl")
    for text in ('Executable = "job.jdl"', '[\n  Executable = "a"\n].jdl'):
        assert [job.body for job in read(text)] == [{"jdl": text}]


@pytest.mark.parametrize("text", ["#!/bin/sh\nA=1;", "hello, world", ""])
def test_other_files_are_no_descriptions(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.sh").write_text(text)
    with pytest.raises(WrongUsageError, match="is not a job description in JDL, CFG, JSON or YAML"):
        read(tmp_path / "run.sh")


def test_uploaded_files_and_those_of_storage_elements_keep_their_names(tmp_path: Path) -> None:
    names = ["sha256:abc", "LFN:/lhcb/a", "run.sh"]
    (tmp_path / "run.sh").write_text("")
    job = LocalDescription({"input_sandbox": names}, tmp_path).with_names(lambda path: f"new of {path.name}")
    assert job == {"input_sandbox": ["sha256:abc", "LFN:/lhcb/a", "new of run.sh"]}
