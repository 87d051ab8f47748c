"""CFG texts and their errors; they mean the same as JDL with the same attributes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.requirements import canonical
from wms.client.sandbox_names import cfg_with_names
from wms.jobs.domain.cfg import MAX_BYTES, InvalidCfgError, parse_cfg
from wms.jobs.domain.description import parse
from wms.jobs.domain.jdl import parse_jdl
from wms.kernel.errors import RejectedError

RFC_EXAMPLE = """
# The example of RFC 7.
Executable = my_executable
Requirements
{
  SoftwareTag = AppVersion1, AppVersion2
  CPUModel = Intel Xeon     # as the site spells it
  Memory = 4000
}
"""
RFC_EXAMPLE_AS_JDL = """
[
  Executable = "my_executable";
  Requirements = [ SoftwareTag = { "AppVersion1", "AppVersion2" }; CPUModel = "Intel Xeon"; Memory = 4000; ]
]
"""


def described(text: str) -> object:
    return parse_cfg(text).description


def test_the_example_of_the_rfc_is_the_same_job_as_its_jdl() -> None:
    assert parse_cfg(RFC_EXAMPLE) == parse_jdl(RFC_EXAMPLE_AS_JDL)


def test_every_kind_of_attribute_is_the_same_as_in_jdl() -> None:
    cfg = """
    Executable = run.sh
    Arguments = --events 10, 20 a#b
    jobname = my job
    OwnerGroup = lhcb_user
    CPUTime = 3600
    Priority = "7"
    Site = LCG.CERN.ch, LCG.PIC.es
    Site += LCG.GRIDKA.de
    BannedSites = LCG.RAL.uk
    InputData = LFN:/lhcb/a, /lhcb/b
    Environment { A = 1
      B = x, y }
    Parameters.energy = 7, 13.5
    Parameters.name = "7", "a, b"
    ParameterStart.energy = 1
    """
    jdl = """
    Executable = "run.sh"; Arguments = "--events 10, 20 a#b"; jobname = "my job"; OwnerGroup = "lhcb_user";
    CPUTime = 3600; Priority = "7"; Site = {"LCG.CERN.ch", "LCG.PIC.es", "LCG.GRIDKA.de"}; BannedSites = "LCG.RAL.uk";
    InputData = {"LFN:/lhcb/a", "/lhcb/b"}; Environment = [A = "1"; B = "x, y"];
    Parameters.energy = {7, 13.5}; Parameters.name = {"7", "a, b"}; ParameterStart.energy = 1;
    """
    assert parse_cfg(cfg) == parse_jdl(jdl)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("4000", 4000),
        ("-4000", -4000),
        ("4e3", 4000.0),
        ("4000.5", 4000.5),
        ('"4000"', "4000"),
        ("true", True),
        ('"true"', "true"),
        ("Intel Xeon", "Intel Xeon"),
        ("v1", "v1"),
        ("1, v1", [1, "v1"]),
        ('"a, b", c', ["a, b", "c"]),
        ('a "quoted" word', 'a "quoted" word'),
        ('"a ""quoted"" word"', 'a "quoted" word'),
        ('"a ""b, c""", """"', ['a "b, c"', '"']),
        ('"a" "b"', '"a" "b"'),
        ("a=b", "a=b"),
        ("a#b", "a#b"),
    ],
)
def test_values_of_requirements_are_numbers_truths_or_texts(value: str, read: object) -> None:
    text = f"Executable = a\nRequirements {{\n Memory = {value}\n}}\n"
    assert described(text) == {"executable": "a", "requirements": {"Memory": read}}
    # On one line too.
    assert described(f"Executable = a\nRequirements {{ Memory = {value} }}") == described(text)


@pytest.mark.parametrize(
    "line",
    ["Memory >= 4000", "Memory > = 4000", "Memory == 4000", "Memory != 4", "A = 1; B = 2", "A = {a, b}", "A = 1 }}"],
)
def test_requirements_as_expression_or_jdl_are_refused(line: str) -> None:
    with pytest.raises(InvalidCfgError, match="an expression is not accepted"):
        parse_cfg(f"Executable = a\nRequirements {{ {line} }}")
    quoted = parse_cfg('Executable = a\nRequirements { A = "a; {b}", "== c" }').description
    assert quoted["requirements"] == {"A": ["a; {b}", "== c"]}


@pytest.mark.parametrize("number", ["99999999999999999999", "9" * 1000, "1e999", "-1e999"])
def test_a_number_that_fits_nowhere_is_no_text(number: str) -> None:
    read = parse_cfg(f"Executable = a\nRequirements {{ Memory = {number} }}").description
    with pytest.raises(RejectedError, match="finite and fits in 64 bits"):
        canonical(read["requirements"])


def test_a_byte_order_mark_in_cfg_is_ignored() -> None:
    assert described("\ufeffExecutable = a") == {"executable": "a"}


def test_empty_values_are_absent_and_environments_may_be_lists() -> None:
    cfg = 'Executable = a\nSite =\nOutputSE = ""\nCPUTime =\nLogLevel =\nTags = ""\nEnvironment = A=1, B=2'
    assert parse_cfg(cfg) == parse_jdl('Executable = "a"; Environment = {"A=1", "B=2"};')
    assert described('Executable = ""\nArguments =') == {"executable": "", "arguments": ""}


def test_values_are_read_as_in_jdl() -> None:
    """Blanks at the ends of quoted texts, several storage elements in one text, and numbers in quotes."""
    cfg = """
    Executable = " run.sh "
    Arguments = " a "
    Tags = " a", "", "b "
    InputSandbox = "LFN: /vo/a ", " b "
    OutputSE = A, B
    CPUTime = " 3600.0 "
    Parameters = "3"
    ParameterStart = "1"
    ParameterStep = "0.5"
    """
    jdl = """
    Executable = " run.sh "; Arguments = " a "; Tags = { " a", "", "b " }; InputSandbox = { "LFN: /vo/a ", " b " };
    OutputSE = "A, B"; CPUTime = " 3600.0 "; Parameters = "3"; ParameterStart = "1"; ParameterStep = "0.5";
    """
    assert parse_cfg(cfg) == parse_jdl(jdl)
    assert parse_cfg('OutputSE = "A", "B"') == parse_cfg("OutputSE = A, B")
    assert (
        cfg_with_names(cfg, lambda name: f"<{name}>").splitlines()[4].strip() == 'InputSandbox = "<LFN:/vo/a>", "<b>"'
    )


@pytest.mark.parametrize(
    ("value", "read"), [('"a;"', "a;"), ("a;b", "a;b"), ('-c "a; b"', '-c "a; b"'), ('"-c ""a""; ;"', '-c "a"; ;')]
)
def test_a_quoted_semicolon_is_kept(value: str, read: str) -> None:
    assert described(f"Executable = a\nArguments = {value}") == {"executable": "a", "arguments": read}


def test_windows_line_ends_and_blank_lines_are_ignored() -> None:
    assert described("\r\n  Executable = a \r\n\r\n#\r\nTags = b ,c\r\n") == {"executable": "a", "tags": ["b", "c"]}


@pytest.mark.parametrize(
    ("text", "line", "column", "sentence"),
    [
        ("Executable = a\nExecutabel = b", 2, 1, 'There is no attribute `Executabel`. Did you mean "Executable"?'),
        ("Executable = a\n  executable = b", 2, 3, "given twice"),
        ("Executable = a\nSite = b\nSites = c", 3, 1, "mean the same"),
        ("Executable = a\nCPUTime = long", 2, 11, "must be an integer"),
        ("Executable = a\nRequirements = Memory > 4000", 2, 16, "an expression is not accepted"),
        ("Executable = a\nRequirements {\nMemory = 1\nmemory = 2\n}", 4, 1, "given twice"),
        ("Executable = a\nRequirements {\nMemory = 1", 2, 1, "not closed"),
        ("Executable = a\nRequirements {\nA {\n b = 1\n}\n}", 3, 1, "no sections"),
        ("Executable = a\nRequirements {\nA =\n}", 3, 1, "no value"),
        ("Executable = a\n}", 2, 1, "closes nothing"),
        ("Executable = a;", 1, 15, "remove the `;`"),
        ("Executable = a\nPriority = 5 ; # high", 2, 14, "remove the `;`"),
        ("Executable = a\nSite = b\nSite += c;", 3, 10, "remove the `;`"),
        ("Executable = a\nRequirements {\nMemory = 4000;\n}", 3, 14, "remove the `;`"),
        ("Executable = a\nRequirements { Memory = 4000; }", 2, 29, "remove the `;`"),
        ("Executable = a\nRequirements { Memory = 4000 };", 2, 31, "remove the `;`"),
        ('Executable = a\nTags = {"b", "c"}', 2, 8, "without braces: Tags = a, b"),
        ("{ Executable = a }", 1, 1, "Give the section a name"),
        ("Executable", 1, 11, "Write `=` and a value, or a block"),
        ("Executable\nSite = a", 2, 1, "Write `=` and a value, or a block"),
        ("Executable = a\n= b", 2, 1, "Write a name"),
        ("Executable = a\na b = c", 2, 1, "Write a name"),
        ("Executable = a\nSite = a,,b", 2, 8, "empty element"),
        ("Executable = a\nSite = a,", 2, 8, "empty element"),
        ("Executable = a\nExecutable += b", 1, 14, "not a list"),
        ("Executable { a = b }", 1, 1, "must be a value"),
        ("Executable = a\0", 1, 15, "NUL"),
        ("a {\n" * 20, 9, 3, "deep"),
        ("Executable = " + "a" * MAX_BYTES, 1, 1, "at most 65536 bytes"),
        ("\n" * 20_000 + "Executable = a", 10001, 1, "at most 10000 lines"),
    ],
)
def test_errors_are_reported_with_their_position(text: str, line: int, column: int, sentence: str) -> None:
    with pytest.raises(InvalidCfgError) as refusal:
        parse_cfg(text)
    assert sentence in refusal.value.detail
    assert (refusal.value.line, refusal.value.column) == (line, column)
    assert refusal.value.code == "invalid_cfg"


@given(st.text(alphabet=st.sampled_from('Executable=+{}#", \n\\aSite1.\t\r\0é'), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidCfgError):
        parse_cfg(text)


@given(st.lists(st.text(alphabet="abc XYZ019_-./,#=", min_size=1, max_size=12).map(str.strip).filter(bool), min_size=1))
def test_quoted_elements_are_read_unchanged(values: list[str]) -> None:
    quoted = ", ".join('"' + value + '"' for value in values)
    assert described(f"Executable = a\nTags = {quoted}") == {"executable": "a", "tags": values}


def test_parsed_cfg_is_a_valid_description() -> None:
    description = parse(parse_cfg(RFC_EXAMPLE).description)
    assert description.executable == "my_executable"
    assert dict(description.requirements)["Memory"] == 4000
