"""Reading the configuration file: each problem is one sentence with line and key; no other error is raised."""

# ruff: noqa: E501 - rows of tables

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import examples
from wms.configuration.document import MAX_BYTES
from wms.configuration.entries import read
from wms.configuration.problems import ConfigurationError
from wms.configuration.reading import Reading
from wms.configuration.schema import Configuration


def problems_of(text: str | bytes, **environ: str) -> list[str]:
    """Return all problems of a file, by line."""
    source = text.encode() if isinstance(text, str) else text
    reading = Reading(environ)
    try:
        read(source, Configuration, reading)
        return [str(problem) for problem in sorted(reading.problems)]
    except ConfigurationError as error:
        return [str(problem) for problem in error.problems]


def site(text: str) -> str:
    """Return a file with one site, with *text* in line 2."""
    return f"sites:\n- {{name: A, {text}}}"


def queue(text: str) -> str:
    """Return a file with one queue, with *text* in line 2."""
    return site(f"ces: [{{name: c, queues: [{{name: q, cpu_time_s: 1, {text}}}]}}]")


QUEUE = "sites[0].ces[0].queues[0]"


# ---- The file as a whole ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (b"", "line 1: the file holds no configuration"),
        (b"# nothing\n", "line 1: the file holds no configuration"),
        (b"~", "line 1: the file holds no configuration"),
        (b"vos: []\n---\nvos: []", "line 2: the file holds more than one document; join them into one"),
        (b"vos: []\n\xff", "line 2: not UTF-8: byte 9 of the file is wrong"),
        ("vos: []".encode("utf-16"), "line 1: not UTF-8: byte 1 of the file is wrong"),
        (b"vos: []\n\n\x00", "line 3: the character U+0000 is not allowed here"),
        (b"#" * (MAX_BYTES + 1), "line 1: the file is larger than 4 MB"),
        (b"vos: " + b"[" * 1_000_000, "line 1: nested deeper than 20 levels"),
        (b"- " * 1_000_000, "line 1: nested deeper than 20 levels"),
        (b"{a: " * 1_000_000, "line 1: nested deeper than 20 levels"),
        (b"vos: []\nusers: &a []", "line 2: anchors (&) and aliases (*) are not supported; write the value out"),
        (b"vos: []\nusers: *a", "line 2: anchors (&) and aliases (*) are not supported; write the value out"),
        (
            b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]",
            "line 1: anchors (&) and aliases (*) are not supported; write the value out",
        ),
        (
            b"vos: []\nusers: !!python/object/apply:os.system [ls]",
            "line 2: tags such as tag:yaml.org,2002:python/object/apply:os.system are not supported; write the value without one",
        ),
        (b"vos: !!set {}", "line 1: tags such as tag:yaml.org,2002:set are not supported; write the value without one"),
        (b"[a]: b", "line 1: a key is a single word, not a list or a mapping"),
        (b"[vos]", "line 1: use a mapping of names to values, not a list"),
        (b"vos", 'line 1: use a mapping of names to values, not "vos"'),
    ],
)  # fmt: skip
def test_a_file_without_a_configuration_is_refused(source: bytes, problem: str) -> None:
    assert problems_of(source) == [problem]


@pytest.mark.parametrize(
    ("source", "line"),
    [("vos: []\nusers: [", 2), ("vos: []\n\tusers: []", 2), ('vos: []\n\nusers: "', 3), ("a: b: c", 1), ("%YAML 9", 1)],
)
def test_a_syntax_error_is_one_sentence_with_its_line(source: str, line: int) -> None:
    (problem,) = problems_of(source)
    assert problem.startswith((f"line {line}: not valid YAML: ", f"line {line + 1}: not valid YAML: "))


def test_a_byte_order_mark_is_ignored() -> None:
    assert problems_of(b"\xef\xbb\xbfvos: []") == []


# ---- Keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("vos: []\ngruops: []", ['line 2: gruops: unknown key. Did you mean "groups"?']),
        ("xyz: []", ["line 1: xyz: unknown key."]),
        ("vos: []\nusers: []\nvos: []", ["line 3: vos: given twice; first in line 1"]),
        (queue("memory: 3"), [f'line 2: {QUEUE}.memory: unknown key. Did you mean "memory_mb"?']),
        (queue("tags: [],\n  tags: []"), [f"line 3: {QUEUE}.tags: given twice; first in line 2"]),
        ("users: [{groups: []}]", ["line 1: users[0]: username is missing"]),
        ("groups:\n- {name: g}", ["line 2: groups[0]: vo is missing"]),
        (
            "users:\n- {username: a}\n- {username: b}\n- {username: a}",
            ["line 4: users[2].username: given twice; first in line 2"],
        ),
        (
            "requirement_definitions: [{name: Memory, kind: set}, {name: memory, kind: set}]",
            ["line 1: requirement_definitions[1].name: given twice; first in line 1"],
        ),
        (
            "limits:\n- {scope: {user: a}, running: 1}\n- {scope: {user: a}, running: 1}",
            ["line 3: limits[1]: given twice; first in line 2"],
        ),
        ("platforms: {a: [],\n  a: []}", ["line 2: platforms.a: given twice; first in line 1"]),
        (
            site("parameters: {Memory: 1, memory: 2}"),
            ["line 2: sites[0].parameters.memory: given twice; first in line 2"],
        ),
    ],
)
def test_keys_and_names_that_are_unknown_missing_or_given_twice(text: str, problems: list[str]) -> None:
    assert problems_of(text) == problems


# ---- Values ----------------------------------------------------------------------------------------------------------


#: Text of a file whose line 2 has a wrong value, and the beginning of the sentence about it.
WRONG_VALUES = [
    (queue("processors: true"), f'{QUEUE}.processors: use a whole number, not "true"'),
    (queue("processors: 1.5"), f'{QUEUE}.processors: use a whole number, not "1.5"'),
    (queue('processors: "1"'), f'{QUEUE}.processors: use a whole number, not "1"'),
    (queue("processors: many"), f'{QUEUE}.processors: use a whole number, not "many"'),
    (queue("processors: [1]"), f"{QUEUE}.processors: use a single value, not a list"),
    (queue("processors: {a: 1}"), f"{QUEUE}.processors: use a single value, not a mapping"),
    (queue("processors: null"), f'{QUEUE}.processors: use a whole number, not "null"'),
    (queue("processors: 0"), f"{QUEUE}.processors: must be from 1 to 2147483647"),
    (queue("processors: 99999999999999999999"), f"{QUEUE}.processors: must be from 1 to 2147483647"),
    (queue(f"processors: {'9' * 5000}"), f'{QUEUE}.processors: use a whole number, not "{"9" * 60}…"'),
    (queue("memory_mb: -1"), f"{QUEUE}.memory_mb: must be from 0 to 2147483647"),
    (queue("stalled_s: 59"), f"{QUEUE}.stalled_s: must be 0, or from 60 to 31622400"),
    (queue("wall_time_s: 0"), f"{QUEUE}.wall_time_s: must be from 1 to 2147483647"),
    (queue("gpus: -1"), f"{QUEUE}.gpus: must be from 0 to 2147483647"),
    (queue("gpus: 0.5"), f'{QUEUE}.gpus: use a whole number, not "0.5"'),
    (queue("disk_mb: -1"), f"{QUEUE}.disk_mb: must be from 0 to 2147483647"),
    (queue("container: docker"), f'{QUEUE}.container: use true or false, not "docker"'),
    (queue("memory_mb: 0x10"), f'{QUEUE}.memory_mb: put "0x10" in quotes if it is a text; else write true, false or a plain decimal number'),
    (queue("memory_mb: 1_000"), f'{QUEUE}.memory_mb: put "1_000" in quotes if it is a text; else write true, false or a plain decimal number'),
    (queue("tags: a"), f'{QUEUE}.tags: use a list, such as [a, b], not "a"'),
    (queue("tags: [a, b, a]"), f"{QUEUE}.tags[2]: given twice; first in line 2"),
    (queue("tags: [1]"), f'{QUEUE}.tags[0]: use a text; put "1" in quotes'),
    (queue("tags: [no]"), f'{QUEUE}.tags[0]: put "no" in quotes if it is a text; else write true, false or a plain decimal number'),
    (queue('tags: [""]'), f"{QUEUE}.tags[0]: must not be empty"),
    (queue(f"tags: [{'x' * 256}]"), f"{QUEUE}.tags[0]: use at most 255 characters"),
    (queue(r'tags: ["a\0"]'), f"{QUEUE}.tags[0]: holds a character that cannot be stored"),
    (queue("parameters: [a]"), f"{QUEUE}.parameters: use a mapping of names to values, not a list"),
    (queue("parameters: {a: {b: 1}}"), f"{QUEUE}.parameters.a: use a single value, not a mapping"),
    (queue("parameters: {a: [[1]]}"), f"{QUEUE}.parameters.a[0]: use a single value, not a list"),
    (queue("parameters: {a: null}"), f"{QUEUE}.parameters.a: use a text, a number, true or false, or a list of these"),
    (queue("parameters: {a: []}"), f"{QUEUE}.parameters.a: an empty list matches nothing; leave the name out or give a value"),
    (queue("parameters: {a: .nan}"), f"{QUEUE}.parameters.a: use a finite number"),
    (queue("parameters: {a: -.inf}"), f"{QUEUE}.parameters.a: use a finite number"),
    (queue("parameters: {a: 1e400}"), f"{QUEUE}.parameters.a: a number is finite and fits in 64 bits"),
    (queue("parameters: {a: 2026-01-01}"), f'{QUEUE}.parameters.a: put "2026-01-01" in quotes if it is a text; else write true, false or a plain decimal number'),
    (queue("parameters: {a: yes}"), f'{QUEUE}.parameters.a: put "yes" in quotes if it is a text; else write true, false or a plain decimal number'),
    (site("status: {state: actve}"), 'sites[0].status.state: use active, draining or banned. Did you mean "active"?'),
    (site("status: {state: banned}"), "sites[0].status.reason: give the reason why it is banned; users see it"),
    (site("status: {state: active, until: 2027-01-01T00:00:00Z}"), "sites[0].status.until: an active resource has no end; leave it out"),
    (site("status: {state: banned, reason: x, until: 2027-01-01T00:00:00}"), "sites[0].status.until: give the time zone, such as 2027-01-31T12:00:00Z for UTC"),
    (site("status: {state: banned, reason: x, until: soon}"), "sites[0].status.until: use a date and time such as 2027-01-31T12:00:00Z"),
    (site("status: banned"), 'sites[0].status: use a mapping of names to values, not "banned"'),
    (site("throttle: {policy: level0}"), "sites[0].throttle.max_submitting_jobs: the policy level0 requires this value"),
    (site("throttle: {policy: custom, requirements: '1 +'}"), "sites[0].throttle.requirements: not a ClassAd expression"),
    (site('tokens: {register: "a b"}'), "sites[0].tokens.register: use printable ASCII without blanks, and none of the prefixes wmsu_, wmsp_ and wmsj_"),
    (site("tokens: {register: wmsu_x}"), "sites[0].tokens.register: use printable ASCII without blanks, and none of the prefixes wmsu_, wmsp_ and wmsj_"),
    ("groups:\n- {name: g, vo: v, priority: .nan}", "groups[0].priority: use a finite number"),
    ("groups:\n- {name: g, vo: v, priority: 1e13}", "groups[0].priority: must be from 0 to 1e+12"),
    ("groups:\n- {name: g, vo: v, properties: [JOB_SHARNG]}", 'groups[0].properties[0]: use JOB_SHARING or PRODUCTION. Did you mean "JOB_SHARING"?'),
    ("groups:\n- {name: 'a b', vo: v}", 'groups[0].name: "a b" is not accepted: use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _'),
    ("users:\n- {username: 'a:b'}", 'users[0].username: "a:b" is not accepted: use letters, digits and . _ @ + - only'),
    ("users:\n- {username: u, staff: 1}", 'users[0].staff: use true or false, not "1"'),
    ("users:\n- {username: u, password: 123}", "users[0].password: use a text"),
    ("limits:\n- {scope: {}, running: 1}", "limits[0].scope: name at least one of vo, site, ce, group, user and job_type"),
    ("limits:\n- {scope: {user: a}}", "limits[0].running: give running, waiting, cpu_s_per_day or delay_s"),
    ("limits:\n- {scope: {user: a}, running: 1, burst: 2}", "limits[0].burst: a burst requires a delay; give the delay"),
    ("directors:\n- {name: d, private_fraction: 1.5}", "directors[0].private_fraction: must be from 0 to 1"),
    ("directors:\n- {name: d, private_fraction: .nan}", "directors[0].private_fraction: use a finite number"),
    ("directors:\n- {name: d, pilots_per_cycle: 0}", "directors[0].pilots_per_cycle: must be from 1 to 2147483647"),
    ("directors:\n- {name: d, pilots_per_cycle: true}", "directors[0].pilots_per_cycle: use a whole number"),
    ("directors:\n- {name: d, kind: sites}", 'directors[0].kind: use site or taskqueue. Did you mean "site"?'),
    ("directors:\n- {name: d, job_type: [User]}", 'directors[0].job_type: unknown key. Did you mean "job_types"?'),
    ("storage_elements:\n- {name: s, url: here}", 'storage_elements[0].url: "here" is not accepted: use a URL such as https://…/path, without user and password, ? and #'),
    ("platforms:\n  'a b': []", 'platforms.a b: "a b" is not accepted: use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _'),
]  # fmt: skip


def test_an_invalid_value_is_one_sentence(subtests: pytest.Subtests) -> None:
    for text, problem in WRONG_VALUES:
        with subtests.test(problem):
            (found,) = problems_of(text)
            assert found.startswith(f"line 2: {problem}")


@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("file:///data", True),
        ("file://localhost/data/", True),
        ("https://storage.example.org", True),
        ("https://[::1]:8443/lhcb", True),
        ("root://eos.example.org//lhcb", True),
        ("https://alice:hunter2@storage.example.org/lhcb", False),
        ("https://storage.example.org/lhcb?token=hunter2", False),
        ("https://storage.example.org/lhcb#part", False),
        ("https:///lhcb", False),
        ("file://elsewhere/data", True),
        ("/data", False),
    ],
)
def test_the_url_of_a_storage_element_is_a_prefix_without_password(url: str, accepted: bool) -> None:
    problems = problems_of(f'storage_elements: [{{name: s, url: "{url}"}}]')
    assert (problems == []) is accepted
    if not accepted:
        assert "without user and password" in problems[0]


@pytest.mark.parametrize("credential", ["hunter2\\n", "hun\\tter2", " hunter2", "hünter2"])
def test_a_credential_that_could_not_be_sent_is_refused_and_not_repeated(credential: str) -> None:
    (problem,) = problems_of(f'storage_elements: [{{name: s, url: "file:///d", credential: "{credential}"}}]')
    assert "storage_elements[0].credential: use printable ASCII" in problem
    assert "nter2" not in problem


def test_secrets_are_not_repeated_in_problems() -> None:
    text = 'users: [{username: u, password: ["hunter2"]}]\nsites: [{name: A, tokens: {register: "hun ter2"}}]'
    assert len(problems_of(text)) == 2
    assert "ter2" not in "".join(problems_of(text))


# ---- The environment -------------------------------------------------------------------------------------------------


def test_variables_are_replaced_in_texts_and_numbers() -> None:
    text = queue('max_pilots: "${N}", job_types: ["${A}/${A}", "$${A}", "$A"]')
    reading = Reading({"N": "7", "A": "a"})
    file = read(text.encode(), Configuration, reading)
    assert reading.problems == []
    (found,) = file.sites[0].ces[0].queues
    assert (found.max_pilots, found.job_types) == (7, ("$A", "${A}", "a/a"))


def test_digits_from_the_environment_are_text_in_text_keys() -> None:
    assert problems_of("users: [{username: u, password: '${P}'}, {username: v, password: '${P}'}]", P="123") == []


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("${NO_SUCH}", "the environment variable NO_SUCH is not set; set it, or write the value here"),
        ("${}", "after ${ comes the name of an environment variable and }; write $${ for ${ itself"),
        ("${a b}", "after ${ comes the name of an environment variable and }; write $${ for ${ itself"),
        ("${OPEN", "after ${ comes the name of an environment variable and }; write $${ for ${ itself"),
    ],
)
def test_a_missing_variable_is_named(written: str, problem: str) -> None:
    assert problems_of(f'users:\n- {{username: u, password: "{written}"}}') == [f"line 2: users[0].password: {problem}"]


def test_values_from_the_environment_are_checked_and_not_shown() -> None:
    (problem,) = problems_of("users: [{username: '${NAME}'}]", NAME="not a name")
    assert problem.startswith('line 1: users[0].username: "${NAME}" is not accepted')
    (problem,) = problems_of("users: [{username: u, password: '${P}'}]", P="\udcff")
    assert problem == "line 1: users[0].password: holds a character that cannot be stored"


# ---- Anything at all -------------------------------------------------------------------------------------------------

WORDS = (
    r"""vos users sites name [ ] { } : , - ? | > & * ! !! % @ ` ' " # --- ... << = ~ null true yes 1 .nan ${A} $${ \ """
)
yaml_words = st.sampled_from([*WORDS.split(" "), "\n", "\n  ", "\t", " ", "\u0085", "\u2028", "\ufeff", "é"])
keys = st.sampled_from(
    ["vos", "users", "sites", "limits", "platforms", "name", "ces", "queues", "status", "tokens", "x"]
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("${A}")
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=examples(200))
@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b'"\\ud800": 1')
@example(b'"\\UFFFFFFFF": 1')
@example(b'vos: [{name: "\\0", setup: s}]')
def test_bytes_raise_nothing_but_the_error(source: bytes) -> None:
    assert isinstance(problems_of(source, A="a"), list)


@settings(max_examples=examples(200))
@given(st.lists(yaml_words, max_size=30).map("".join))
def test_almost_yaml_raises_nothing_but_the_error(text: str) -> None:
    assert isinstance(problems_of(text, A="a"), list)


@settings(max_examples=examples(200))
@given(st.dictionaries(keys, trees, max_size=5))
def test_any_tree_raises_nothing_but_the_error(tree: object) -> None:
    assert isinstance(problems_of(yaml.safe_dump(tree), A="a"), list)
