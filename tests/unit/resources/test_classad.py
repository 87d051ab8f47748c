"""The ClassAd language: parsing, evaluation, and limits on hostile texts."""

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.classad import (
    ERROR,
    MAX_BYTES,
    MAX_DEPTH,
    UNDEFINED,
    ClassAdError,
    Value,
    classad_of,
    evaluate,
    is_true,
    parse_classad,
    parse_expression,
    values_of,
)


def value_of(text: str) -> Value:
    return evaluate(parse_expression(text))


def error_of(text: str) -> ClassAdError:
    with pytest.raises(ClassAdError) as caught:
        parse_classad(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("10 - 4 - 3", 3),
        ("(1 + 2) * 3", 9),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("1 / 2.0", 0.5),
        (".5 + 1e1", 10.5),
        ("010", 10),
        ("1 < 2 == true", True),
        ("!true || true", True),
        ("1 ? 2 ? 3 : 4 : 5", 3),
        ("true + true", 2),
        ('"abc" == "ABC"', True),
        ('"abc" =?= "ABC"', False),
        ('"a" is "a"', True),
        ("1 isnt 1.0", True),
        ("{ 1, { 2 } }[1][0]", 2),
        ("[ a = [ B = 4 ] ].A.b", 4),
        ('[ a = 4 ]["A"]', 4),
        ('size("four") + size({ 1, 2 }) + size([ a = 1 ])', 7),
        ('member("CERN", { "cern" })', True),
        ("member(2, { 1, 2.0 })", True),
        ('toLower("ÀB") =?= "Àb"', True),
        ('toUpper("ab")', "AB"),
        ("int(-1.9)", -1),
        ("real(1)", 1.0),
        ("isUndefined(nowhere) && isError(1 / 0)", True),
        ('isString("") && isInteger(1) && isReal(1.0) && isBoolean(true) && isList({})', True),
        (r'"a\"b\\\t\101\q"', 'a"b\\\tAq'),
        ("1 // one\n + /* two */ 2", 3),
        ("ifThenElse(1 < 2, 3, error)", 3),
        ("2 * undefined ?: 4 + 1", 9),
        ("undefined ?: -1", -1),
        ("1 ? undefined ? : 2 : 3", 2),
        ('strcat("a", 1, true, -0.0, 1.5) =?= "a1true-0.01.500000000000000E+00"', True),
        ("strcat()", ""),
        ('stringListMember("b", " a, b") && !stringListMember("B", "a,b") && stringListIMember("B", "a b")', True),
        ('stringListMember("a b", "a b; c", ";")', True),
        ('regexp("^a[0-9]+$", "a12") && !regexp("B", "abc") && regexp("B", "abc", "i")', True),
    ],
)
def test_an_expression_has_its_value(text: str, value: Value) -> None:
    result = value_of(text)
    assert (type(result), result) == (type(value), value)


@pytest.mark.parametrize(
    "text",
    [
        "undefined < 1", "undefined + 1", "undefined && true", "true && undefined", "undefined || false",
        "nowhere", "TARGET.nowhere", "MY.nowhere", "undefined ? 1 : 2", "[ a = 1 ].b", "undefined == undefined",
        "-undefined", "!undefined", "size(undefined)", "member(undefined, {})", "{ 1 }[undefined]",
    ],
)  # fmt: skip
def test_unknown_attributes_are_undefined(text: str) -> None:
    assert value_of(text) is UNDEFINED


@pytest.mark.parametrize(
    "text",
    [
        "1 / 0", "1 % 0", "1.0 / 0", "5.5 % 2", '"a" + 1', '1 == "1"', "error && false", "undefined && error",
        '"a" && true', "-true", '!"a"', "{ 1 } == { 1 }", "{} =?= {}", "{ 1 }[1]", "{ 1 }[-1]", "{ 1 }[true]",
        "9223372036854775807 + 1", "1e308 * 10", "size(1)", "member({}, {})", "error ? 1 : 2",
    ],
)  # fmt: skip
def test_invalid_operations_give_an_error_value(text: str) -> None:
    assert value_of(text) is ERROR


def test_time_has_the_value_of_the_evaluation_and_none_without_one() -> None:
    assert evaluate(parse_expression("TIME() % 86400"), now=86_400 + 5) == 5
    with pytest.raises(ClassAdError, match=r"time\(\) is for expressions of sites"):
        value_of("time()")
    assert not is_true(parse_expression("time() > 0"))


@pytest.mark.parametrize(
    "text",
    [
        'regexp(strcat("(", u), "a")', 'regexp("a", 1)', 'regexp("a", long)', 'regexp("a$", "a\\n")',
        r'regexp("\s", "\013")', "strcat({1})",
    ],
)  # fmt: skip
def test_what_cannot_be_searched_or_joined_is_an_error(text: str) -> None:
    assert evaluate(parse_expression(text), my=classad_of({"u": "a", "long": "a" * 4097})) is ERROR


def test_a_search_costs_steps_by_the_size_of_pattern_and_text() -> None:
    text = parse_expression('regexp(pattern, text) =!= "x"')
    for pattern, size, steps in ((".{100}", 4000, 12_500), (".{100}", 400, 1400), ("a|b", 4000, 400), ("a|b", 40, 20)):
        ad = classad_of({"pattern": pattern, "text": "c" * size})
        assert is_true(text, my=ad, max_steps=steps + steps // 2)
        assert not is_true(text, my=ad, max_steps=steps // 2)


def test_undefined_and_false_is_false_because_the_right_side_decides() -> None:
    assert value_of("undefined && false") is False
    assert value_of("undefined || true") is True
    assert value_of("false && error") is False


def test_a_bare_name_is_looked_up_in_my_ad_then_in_the_target() -> None:
    my, target = classad_of({"Mine": 1, "Both": UNDEFINED}), classad_of({"Theirs": 2, "Both": 3})
    assert evaluate(parse_expression("{mine, Theirs, both}"), my=my, target=target) == (1, 2, UNDEFINED)
    assert evaluate(parse_expression("MY.Theirs"), my=my, target=target) is UNDEFINED
    assert evaluate(parse_expression("target.theirs + MY.mine"), my=my, target=target) == 3


def test_within_the_target_the_two_ads_change_places() -> None:
    target = parse_classad("y = x + 10; x = 100; z = TARGET.x; m = MY.x")
    my = classad_of({"x": 1})
    assert evaluate(parse_expression("{ TARGET.y, TARGET.z, TARGET.m }"), my=my, target=target) == (110, 1, 100)


def test_an_inner_record_sees_the_attributes_around_it() -> None:
    ad = parse_classad("a = 1; b = [ c = a; d = [ a = 2; e = a; f = MY.a ] ]")
    assert values_of(ad) == {"a": 1, "b": {"c": 1, "d": {"a": 2, "e": 2, "f": 1}}}


@pytest.mark.parametrize("text", ["a = a", "a = a + 1", "a = b; b = a", "a = b; b = c.d; c = [ d = a ]"])
def test_an_attribute_that_refers_to_itself_is_undefined(text: str) -> None:
    assert values_of(parse_classad(text))["a"] is UNDEFINED


@pytest.mark.parametrize("text", ["undefined", "1 / 0", "1", "CurMatches < 5", '"true"', "{}"])
def test_only_true_is_true(text: str) -> None:
    assert not is_true(parse_expression(text))


def test_a_throttle_expression_is_computed_from_the_advertised_numbers() -> None:
    condition = parse_expression("CurMatches < MaxMatches && CurrentJobs <= 10")
    assert is_true(condition, my=classad_of({"curmatches": 3, "MaxMatches": 4, "CurrentJobs": 10}))
    assert not is_true(condition, my=classad_of({"curmatches": 4, "MaxMatches": 4, "CurrentJobs": 10}))


def test_a_record_may_stand_with_and_without_brackets_and_last_semicolon() -> None:
    forms = [
        "[ a = 1; b = 2; ]",
        "[ a = 1; b = 2 ]",
        "a = 1; b = 2;",
        "a = 1; b = 2",
        "# note\n a=1;;\n  # b = 3;\n b=2;",
    ]
    assert {tuple(values_of(parse_classad(form)).items()) for form in forms} == {(("a", 1), ("b", 2))}


def test_names_keep_their_spelling_and_ignore_case() -> None:
    ad = parse_classad("CPUTime = 1")
    assert ad.names == ("CPUTime",)
    assert ad.expression("cputime") is not None
    assert ad.expression("CPU") is None


def test_dotted_names_are_read_only_where_asked_for() -> None:
    assert parse_classad("Parameters.x = 1", dotted_names=True).names == ("Parameters.x",)
    assert "`=` is expected" in error_of("Parameters.x = 1").detail


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a = 1;\nb = ;", 2, 5, "A value is expected"),
        ("a = 1\nb = 2", 2, 1, "`;` is expected after the value of `a`"),
        ("a = 1; A = 2", 1, 8, "given twice"),
        ("[ a = 1 ] b", 1, 11, "should end here"),
        ("[ a = 1", 1, 8, "the end of the text"),
        ("a = 9223372036854775808", 1, 5, "Integers go up to"),
        (f"a = {'9' * 5000}", 1, 5, "Integers go up to"),
        ("a = 1e999", 1, 5, "too large"),
        ('\n\n a = "b', 3, 6, "This string has no end"),
        ('a = 1;\nb = { "x,\n"y" };\nc = 3;', 2, 7, "This string has no end"),
        ('a = "x\n;b="y";', 1, 5, "This string has no end"),
        ('a = "x\ny"\nb = 3;', 3, 1, "`;` is expected after the value of `a`"),
        ("a = /* b", 1, 5, "This comment has no end"),
        ("a = 'b'", 1, 5, "double quotes"),
        ("a = “b”", 1, 5, "straight double quotes"),
        ('a = { "b" "c" }', 1, 11, "or a comma"),
        ("a = { 1, }", 1, 10, "A value is expected"),
        ("a = 1 & 2", 1, 7, "&&"),
        ("a = szie(1)", 1, 5, 'Did you mean "size"?'),
        ("a = size()", 1, 5, "takes 1 argument, not 0"),
        ("a = regexp(1)", 1, 5, "takes 2 to 3 arguments, not 1"),
        ("a = closeSites(1)", 1, 5, "There are ifThenElse, int, "),
        ("a = closeSites(1)", 1, 5, "strcat, stringListIMember, stringListMember, time, toLower, toUpper."),
        ('a = 1; b = regexp("(a", c)', 1, 19, "RE2 does not accept this regular expression: missing ): (a."),
        ('a = regexp("(?=a)", c)', 1, 12, "invalid perl operator"),
        (r'a = regexp("(a)\\1", c)', 1, 12, "invalid escape sequence"),
        (r'a = regexp("\\v", c)', 1, 12, "write the characters"),
        ('a = regexp("a b", c, "ix")', 1, 12, "there are i, m and s"),
        ('a = regexp("é", c, "i")', 1, 12, "ASCII"),
        ('a = regexp("(?si)é", c)', 1, 12, "ASCII"),
        ('a = regexp("' + "a" * 257 + '", c)', 1, 12, "at most 256 bytes"),
        ('a = regexp("' + "a{1000}" * 30 + '", c)', 1, 12, "too large"),
        ("a = 1 # b", 1, 7, "has no meaning"),
        ("a = \xa0", 1, 5, "U+00A0"),
        ("true = 1", 1, 1, "cannot be a name"),
        ('a = "\\0"', 1, 5, "NUL"),
        ("a = \0", 1, 5, "NUL"),
        ("a = \ud800", 1, 5, "surrogate"),
        ("a = 2GB", 1, 6, "`GB`"),
    ],
)
def test_an_error_has_its_position_and_reason(text: str, line: int, column: int, words: str) -> None:
    error = error_of(text)
    assert (error.line, error.column) == (line, column)
    assert words in error.detail
    assert error.detail.startswith(f"Line {line}, column {column}: ")


@pytest.mark.parametrize("rest", ["", " = 1; {name} = 2", " = 1 2"])
def test_an_error_names_only_the_beginning_of_a_long_name(rest: str) -> None:
    name = "Parameters." * 500 + "a"
    with pytest.raises(ClassAdError) as raised:
        parse_classad(name + rest.format(name=name), dotted_names=True)
    assert f"`{name[:40]}…`" in raised.value.detail
    assert len(raised.value.detail) < 300


def test_a_text_above_64_kb_is_refused() -> None:
    assert "at most 65536" in error_of("é" * (MAX_BYTES // 2 + 1)).detail
    assert values_of(parse_classad("a = 1;" + " " * (MAX_BYTES - 6))) == {"a": 1}


def test_more_than_10000_parts_are_refused() -> None:
    assert "more than 10000 parts" in error_of("a = {" + "1," * 10_001 + "1}").detail


@pytest.mark.parametrize(
    "hostile",
    [
        "(" * 5000, "{" * 5000, "[a=" * 5000, "!" * 5000 + "1", "-" * 5000 + "1", "1?" * 5000, "a[" * 5000,
        "size(" * 5000, "1||1&&1==1<1+1*(" * 2000, "(" * 60 + "1" + ")*1+1<1==1&&1||1" * 60,
        "/*" * 5000, "/*/" * 5000, '"\\' * 5000, "#" * 5000, "\\" * 5000, "." * 5000, "1." * 5000,
    ],
)  # fmt: skip
def test_hostile_nesting_is_refused_before_the_stack_is_in_danger(hostile: str) -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(ClassAdError):
        parse_expression(hostile)
    with pytest.raises(ClassAdError):
        parse_classad("a = " + hostile)
    assert sys.getrecursionlimit() == limit


def test_nesting_up_to_the_limit_is_evaluated() -> None:
    depth = MAX_DEPTH - 1
    assert value_of("(" * depth + "1" + ")" * depth) == 1
    assert value_of("!" * depth + "false") is True


def test_long_chains_and_paths_do_not_count_as_nesting() -> None:
    assert value_of(" || ".join(["false"] * 4000)) is False
    assert value_of(" + ".join(["1"] * 4000)) == 4000
    assert value_of("nowhere" + ".a" * 4000) is UNDEFINED


@pytest.mark.parametrize(
    "bomb",
    [
        "; ".join(f"a{i} = a{i + 1} + a{i + 1}" for i in range(60)) + "; a60 = 1",
        "; ".join(f"a{i} = {{ a{i + 1}, a{i + 1} }}" for i in range(60)) + "; a60 = 1",
        "; ".join(f"a{i} = a{i + 1}" for i in range(3000)) + "; a3000 = 1",
        "a0 = { " + "1, " * 4000 + "1 }; b = { " + "a0, " * 4000 + "a0 }",
        "a0 = [ b = a0 ]",
        "; ".join(f"a{i} = strcat(a{i + 1}, a{i + 1})" for i in range(60)) + '; a60 = "a"',
        'a0 = b == "x"; b = { ' + ", ".join(['regexp("(.*)(.*)(.*)x", t)'] * 100) + '}; t = "' + "a" * 4000 + '"',
        "b = { " + ", ".join([f'regexp(strcat("(.{{0,30}}){{0,16}}{i}", t), t)' for i in range(300)]) + '}; t = ""',
    ],
)
def test_an_exponential_evaluation_is_stopped(bomb: str) -> None:
    ad = parse_classad(bomb)
    with pytest.raises(ClassAdError, match="too long to evaluate"):
        values_of(ad)
    assert not is_true(parse_expression("a0 == 1"), my=ad)


@given(st.text(st.sampled_from('ab1."\\ \n#/*={}[]();,?:+-<>!&|%é\0\ud800') | st.characters(), max_size=60))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    for parse in (parse_classad, parse_expression):
        try:
            parse(text)
        except ClassAdError as refused:
            error = refused
        else:
            continue
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert re.match(r"Line \d+, column \d+: .+[.)]\Z", error.detail, re.DOTALL)
        error.detail.encode()


WORDS = 'a b MY . TARGET true undefined error 1 2.5 "s" ( ) { } [ ] = ; , ? : + - * / % < == =?= && || ! is size member'


@given(st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join))
def test_any_sequence_of_words_is_evaluated_or_refused(text: str) -> None:
    for parse in (parse_classad, parse_expression):
        try:
            parsed = parse(text)
        except ClassAdError:
            continue
        assert hash(repr(parsed))
