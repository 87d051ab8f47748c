"""The table of attributes: each is read, ignored with a warning, or refused with a remedy; the page shows it."""

from dataclasses import dataclass
from itertools import product

import pytest

from wms.jobs.domain.cfg import parse_cfg
from wms.jobs.domain.description import KNOWN_FIELDS, InvalidDescriptionError, parse
from wms.jobs.domain.jdl import InvalidJdlError, parse_jdl
from wms.jobs.domain.jdl_attributes import ALL, BY_NAME, JdlAttribute, Kind
from wms.jobs.domain.parametric import parse_all
from wms.jobs.domain.request import parse_submission
from wms.kernel.errors import RejectedError

EXECUTABLE = 'Executable = "/bin/date";'


def of(kind: Kind) -> list[JdlAttribute]:
    return [attribute for attribute in ALL if attribute.kind is kind]


def name_of(attribute: JdlAttribute) -> str:
    return attribute.name


def test_each_attribute_is_in_the_table_once() -> None:
    assert len(BY_NAME) == len(ALL)


def test_each_read_attribute_sets_an_existing_field() -> None:
    fields = {each.field for each in ALL if each.kind in {Kind.TEXT, Kind.NUMBER, Kind.FRACTION, Kind.LIST}}
    assert fields <= set(KNOWN_FIELDS)


def test_an_attribute_yields_only_to_others_of_its_field() -> None:
    for attribute in ALL:
        assert {BY_NAME[other.lower()].field for other in attribute.yields_to} <= {attribute.field}, attribute.name


def test_an_ignored_attribute_changes_nothing_and_gives_a_warning(subtests: pytest.Subtests) -> None:
    values = ('"text"', "17", '{ "a", "b" }', "[ A = 1; ]", "word", "other.Speed * 2", "/DC=ch/CN=a b", "a & b")
    for attribute, value in product(of(Kind.IGNORED), values):
        with subtests.test(f"{attribute.name} = {value}"):
            job = parse_jdl(f"{EXECUTABLE} {attribute.name} = {value};")
            assert job.description == {"executable": "/bin/date"}
            assert job.warnings == (f"{attribute.name} is ignored: {attribute.sentence}",)


@pytest.mark.parametrize("attribute", of(Kind.REFUSED), ids=name_of)
def test_refused_attributes_are_reported_with_position_and_remedy(attribute: JdlAttribute) -> None:
    with pytest.raises(InvalidJdlError) as refused:
        parse_jdl(f'{EXECUTABLE}\n{attribute.name.upper()} = "x";')
    assert (refused.value.line, refused.value.column) == (2, 1)
    assert refused.value.problem == f"`{attribute.name.upper()}` is not accepted: {attribute.sentence}"


def test_attributes_with_one_reason_share_a_warning_and_all_are_named() -> None:
    (warning,) = parse_jdl(f'{EXECUTABLE} Owner = "alice"; OwnerDN = "/CN=alice";').warnings
    assert warning.startswith("Owner and OwnerDN are ignored: ")


def test_cfg_ignores_and_refuses_the_same() -> None:
    assert (
        parse_cfg("Executable = a\nLogLevel = DEBUG").warnings == parse_jdl('Executable = "a"; LogLevel = 1').warnings
    )
    with pytest.raises(RejectedError, match="`StdInput` is not accepted"):
        parse_cfg("Executable = a\nStdInput = b")


def test_an_option_of_a_cfg_may_be_given_twice_with_one_value() -> None:
    job = parse_cfg("Executable = a\nType = Job\nTags = a, b\ntype = Job\nTags = a, b")
    assert job.description == {"executable": "a", "tags": ["a", "b"]}
    assert parse_cfg("Type = Job\nType = job").warnings == parse_jdl('Type = "Job"; Type = "job";').warnings
    assert job.warnings[-2:] == ("type is given twice with one value.", "Tags is given twice with one value.")
    with pytest.raises(RejectedError, match="given twice"):
        parse_cfg("Executable = a\nExecutable = b")


def test_the_own_jdl_of_this_system_is_not_warned_of() -> None:
    text = """
    Executable = "run.sh"; Arguments = "-n %n"; Site = "LCG.CERN.ch"; Tags = { "gpu" }; NumberOfProcessors = 4;
    Parameters = 3; OutputSE = "CERN-DST"; OutputPath = "LFN:/lhcb/user/a/alice"; InputData = { "/lhcb/a" };
    OutputSandbox = { "a", "b" }; Requirements = [ Memory = 4000; ];
    """
    assert parse_jdl(text).warnings == ()


# ---- Values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """A field, its value, and words of the only warning; None: no warning."""

    field: str
    value: object
    words: str | None = None


@pytest.mark.parametrize(
    ("jdl", "expected"),
    [
        ("MinNumberOfProcessors = 4;", Expected("processors", 4)),
        ("MinNumberOfProcessors = 4; MaxNumberOfProcessors = 4;", Expected("processors", 4)),
        ("MaxNumberOfProcessors = 8; MinNumberOfProcessors = 4;", Expected("processors", 4, "exactly as many")),
        ('WholeNode = "yes"; Tags = { "ssd" };', Expected("tags", ["ssd", "WholeNode"], "as the tag WholeNode")),
        ("WholeNode = false;", Expected("tags", None)),
        ("WholeNodes = 1;", Expected("tags", ["WholeNode"], "as the tag WholeNode")),
        ('SystemConfig = "x86_64-el9";', Expected("platforms", ["x86_64-el9"], "read as Platform")),
        ('OutputPath = "LFN:/vo/a";', Expected("output_path", "/vo/a")),
        ('OutputPath = "/vo/a";', Expected("output_path", "/vo/a", 'Write OutputPath = "LFN:/vo/a"')),
        ('OutputPath = "a/b";', Expected("output_path", "a/b")),
        ('OutputSE = { "A" };', Expected("output_se", "A")),
        ('OutputSE = { "A", "B" };', Expected("output_se", "A", 'only "A" is used')),
        ('InputDataPolicy = "Protocol";', Expected("input_data_policy", "in_place")),
        ('InputDataPolicy = "DIRAC.Some.Module.DownloadInputData";', Expected("input_data_policy", "download")),
        ('Tag = "16GBMemory";', Expected("tags", ["16GBMemory"], "write Memory = 16000")),
        ('Tag = "multiprocessor";', Expected("tags", ["multiprocessor"], "write NumberOfProcessors = 2")),
        (
            'Tag = { "MultiProcessor" }; NumberOfProcessors = 4;',
            Expected("tags", ["MultiProcessor"], "Leave it out: NumberOfProcessors = 4 requires as much."),
        ),
        ('CPUNumber = 3; Tags = "2Processors";', Expected("processors", 3, "NumberOfProcessors = 3 requires")),
        ('Tag = "8Processors"; NumberOfProcessors = 4;', Expected("processors", 4, "write NumberOfProcessors = 8")),
        ('Tag = "8GB"; Memory = 8000;', Expected("memory_mb", 8000, "Leave it out: Memory = 8000 requires as much.")),
        ('Memory = 4000; Tag = "8GB";', Expected("memory_mb", 4000, "write Memory = 8000")),
        ("StdOutput = std.out;", Expected("std_output", "std.out", "in StdOutput; put them in double quotes")),
        ("JobName = jobname;", Expected("job_name", "jobname", "in JobName; put")),
        ("Site = ANY;", Expected("sites", ["ANY"], "in Site; put")),
        ("Parameters = 3; ParameterStart = 2.;", Expected("parameters", {"count": 3, "start": 2.0}, "0 in DIRAC")),
        ("Parameters = { 1 }; ParameterStart = 2;", Expected("parameters", {"values": [1], "start": 2})),
        ("Parameters = 2; Parameters.a = { 1, 2 };", Expected("parameters", {"a": {"values": [1, 2]}})),
        ('InputData = "a;b";', Expected("input_data", ["a;b"], "a name with a semicolon")),
        ('JobType = "MPI";', Expected("job_type", "MPI", "a word of gLite")),
        ('Type = "JOB";', Expected("type", None, "Type is ignored")),
    ],
)  # fmt: skip
def test_a_value_means_what_it_means_in_dirac_or_is_warned_of(jdl: str, expected: Expected) -> None:
    job = parse_jdl(jdl)
    assert job.description.get(expected.field) == expected.value
    if expected.words is None:
        assert job.warnings == ()
    else:
        (warning,) = job.warnings
        assert expected.words in warning


def test_logical_names_in_the_sandbox_stay_there() -> None:
    job = parse_jdl('InputData = { "LFN:/vo/a" }; InputSandbox = { "run.sh", "lfn:/vo/b", "/vo/c" };')
    assert job.description == {"input_data": ["/vo/a"], "input_sandbox": ["run.sh", "LFN:/vo/b", "/vo/c"]}
    assert job.warnings == ()
    assert parse({"executable": "x", "input_sandbox": ["lfn:/vo/b"]}).input_sandbox == ("LFN:/vo/b",)
    with pytest.raises(InvalidDescriptionError, match="must be the absolute path of a file, such as"):
        parse({"executable": "x", "input_sandbox": ["LFN:vo/b"]})


def test_input_data_that_need_not_be_at_the_site_join_the_sandbox() -> None:
    job = parse_jdl("DisableDataScheduling = True; InputData = {/vo/a,LFN:/vo/b}; InputSandbox = LFN:/vo/c;")
    assert job.description == {"input_sandbox": ["LFN:/vo/c", "LFN:/vo/a", "LFN:/vo/b"]}
    assert "they do not choose the site of the job" in job.warnings[0]
    assert parse_jdl("DisableDataScheduling = false; InputData = /vo/a;").description == {"input_data": ["/vo/a"]}


def test_the_execution_environment_is_decoded() -> None:
    job = parse_jdl("ExecutionEnvironment = {A=two%20words%3B,B=100%25,C=%C3%A9,D=%FF%zz};")
    assert job.description == {"environment": {"A": "two words;", "B": "100%", "C": "é", "D": "%FF%zz"}}
    assert 'A is "two words;"' in job.warnings[0]
    assert parse_jdl('Environment = "A=a%20b";').description == {"environment": {"A": "a%20b"}}
    parametric = parse_jdl(f"{EXECUTABLE} Parameters = 2; ExecutionEnvironment = {{A=%25s,B=%s}};")
    (first, _) = parse_all(parametric.description)
    assert first.environment == (("A", "%%s"), ("B", "0"))  # %% becomes % with the id of the job


@pytest.mark.parametrize(
    "jdl",
    [
        "NumberOfProcessors = 4; SmpGranularity = 4;",
        "CPUNumber = 4; SMPGranularity = 4; HostNumber = 1; NodeNumber = 1;",
        "SmpGranularity = 1;",
        "MinNumberOfProcessors = 2; MaxNumberOfProcessors = 2;",
    ],
)
def test_numbers_that_say_what_the_job_gets_are_accepted(jdl: str) -> None:
    assert parse_jdl(jdl).warnings == ()


@pytest.mark.parametrize("name", ["Memory", "MaxRAM", "MinRAM", "MemoryMB"])
def test_so_little_memory_that_gigabytes_are_meant_is_warned_of(name: str) -> None:
    assert f"{name} = 4 means 4 megabytes here; DIRAC 9 counts gigabytes" in parse_jdl(f"{name} = 4;").warnings[-1]
    for unlike in (0, 64):
        assert not any("gigabytes" in sentence for sentence in parse_jdl(f"{name} = {unlike};").warnings)


@pytest.mark.parametrize(
    ("jdl", "words"),
    [
        ("WholeNode = 2;", "must be true or false"),
        ("MaxNumberOfProcessors = many;", "a text stands in double quotes"),
        ('Type = "dag";', "write Parameters"),
        ('InputSandbox = { "SB:A|/b" };', "get its files with dirac-wms-job-get-input, and name them here"),
        ("InputSandbox = SB:A|/b;", "is a sandbox of a DIRAC server"),
        ("MinNumberOfProcessors = 8; MaxNumberOfProcessors = 4;", "MinNumberOfProcessors 8 is above MaxNumberOfProc"),
        ("NumberOfProcessors = 4; SmpGranularity = 2;", "leave it out, or write SmpGranularity = 4."),
        ("SmpGranularity = 4;", "write NumberOfProcessors, which are all on that node"),
        ("NumberOfProcessors = 4; HostNumber = 2;", "write NumberOfProcessors, which are all on that node"),
        ("DisableDataScheduling = 2;", "must be true or false"),
        ('CPUTime = 5; # s\nExecutable = "a";', "begins with //"),
        ('Requirements = RegExp("a", other.GlueCEUniqueID);', "Write instead: GridCE for GlueCEUniqueID."),
        ("Requirements = other.CPUTime > 5;", "Write instead: CPUTime for CPUTime."),
        ("LogLevl = 1;", 'Did you mean "LogLevel"?'),
        ("SEList = A;", 'Did you mean "OutputSE"?'),
        ("InputFile = a;", 'Did you mean "InputSandbox"?'),
        ("NumberOfJobs = 3;", 'Did you mean "Parameters"?'),
        ("RequiredTag = a;", 'Did you mean "Tags"?'),
        ("LogTarget = a;", "hand it over by Arguments or Environment"),
        ("Cores = 4;", 'Did you mean "NumberOfProcessors"?'),
        ("Colour = 1;", "hand it over by Arguments or Environment"),
    ],
)  # fmt: skip
def test_wrong_values_are_reported_with_what_to_write(jdl: str, words: str) -> None:
    with pytest.raises(InvalidJdlError) as refused:
        parse_jdl(jdl)
    assert words in refused.value.detail


def test_a_file_that_is_not_uploaded_is_refused_with_how_to_upload_it() -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        parse_submission({"jdl": 'Executable = "run.sh"; InputSandbox = { "run.sh" };'})
    (sentence,) = refused.value.errors["input_sandbox"]
    assert sentence.startswith('"run.sh" is a file of yours, which the server does not have.')
    assert "POST /api/v1/sandboxes/" in sentence
    address = "gsiftp://host/a"
    for form in ({"jdl": f"{EXECUTABLE} InputSandbox = {address};"}, {"executable": "a", "input_sandbox": [address]}):
        with pytest.raises(InvalidDescriptionError, match="is not fetched from there: name a file of your own, or reg"):
            parse_submission(form)
    with pytest.raises(InvalidDescriptionError, match='A sandbox is named "sha256:" and 64'):
        parse({"executable": "run.sh", "input_sandbox": ["sha256:12"]})


# ---- Where warnings go -----------------------------------------------------------------------------------------------


def test_a_request_has_the_warnings_of_its_texts_with_the_positions_of_their_jobs() -> None:
    ignored = f'{EXECUTABLE} Owner = "alice";'
    many = f'{ignored} LogLevel = "x"; Parameters = 2;'
    alone = parse_submission({"jdl": many})
    assert [list(positions) for positions in alone.warnings.values()] == [[], []]
    several = parse_submission({"jobs": [{"jdl": EXECUTABLE}, {"jdl": many}, {"executable": "a"}, {"jdl": ignored}]})
    assert {sentence.split()[0]: list(positions) for sentence, positions in several.warnings.items()} == {
        "Owner": [1, 2, 4],
        "LogLevel": [1, 2],
    }
    assert parse_submission({"executable": "a"}).warnings == {}
