"""SAM's policies: the number of matches that an advertisement allows."""

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.advertised_load import (
    CUR_MATCHES,
    CURRENT,
    GATHERING,
    MAX_JOBS,
    MAX_MATCHES,
    MAX_SUBMITTING,
    MAX_SUBMITTING_AND_GATHERING,
    SUBMITTING,
    GatewayAdvertisement,
    Numbers,
)
from resources.domain.advertisements import Advertisement, of_classad, of_numbers
from resources.domain.classad import ClassAdError, classad_of
from resources.domain.enums import ThrottlePolicy
from resources.domain.throttle_conditions import JOB_ATTRIBUTES
from resources.domain.throttles import MOST_TRIED, Throttle
from taskqueues.services.classads import NAMES


def stepped(throttle: Throttle, *, most: int = 200) -> int:
    """Return the number of matches that are accepted one after another."""
    return next((matched for matched in range(most) if not throttle.accepts(matched=matched)), most)


def check(throttle: Throttle, until_closed: int) -> None:
    assert stepped(throttle) == until_closed
    assert throttle.left(matched=0) == until_closed
    assert throttle.left(matched=until_closed) == 0
    assert throttle.left(matched=until_closed + 5) == 0
    if until_closed:
        assert throttle.left(matched=1) == until_closed - 1


@pytest.mark.parametrize(
    ("configured", "advertised", "until_closed"),
    [
        (3, None, 3),
        (1, None, 1),
        (0, None, 0),
        (None, None, 0),
        (None, 4, 4),
        (3, 4, 3),
        (4, 3, 3),
        (3, 0, 0),
        (0, 3, 0),
        (150, 100, 100),
    ],
)
@pytest.mark.parametrize("jobs", [0, 7])
def test_matches(configured: int | None, advertised: int | None, until_closed: int, jobs: int) -> None:
    # Whatever goes on at the site: only matches count, from 0 in each cycle.
    numbers = {SUBMITTING: jobs, GATHERING: jobs, CURRENT: 3 * jobs, CUR_MATCHES: jobs}
    maxima = {} if configured is None else {MAX_MATCHES: configured}
    more = {} if advertised is None else {MAX_MATCHES: advertised}
    check(Throttle(policy=ThrottlePolicy.MATCHES, maxima=maxima, advertised={**numbers, **more}), until_closed)


@pytest.mark.parametrize(
    ("most", "submitting", "until_closed"),
    [
        (3, 0, 3),
        (3, 1, 2),
        (3, 2, 1),
        (3, 3, 0),
        (3, 4, 0),
        (0, 0, 0),
        (1, 0, 1),
        (100, 1, 99),
        (3, None, 0),  # nobody said it
        (None, 0, 0),  # nobody configured it
    ],
)
def test_the_policy_level_0_bounds_its_counts(most: int | None, submitting: int | None, until_closed: int) -> None:
    maxima = {} if most is None else {MAX_SUBMITTING: most}
    numbers = {GATHERING: 9, CURRENT: 99} | ({} if submitting is None else {SUBMITTING: submitting})
    check(Throttle(policy=ThrottlePolicy.LEVEL0, maxima=maxima, advertised=numbers), until_closed)


@pytest.mark.parametrize(
    ("most", "submitting", "gathering", "until_closed"),
    [
        (6, 2, 1, 3),
        (6, 0, 0, 6),
        (6, 6, 0, 0),
        (6, 0, 6, 0),
        (6, 3, 3, 0),
        (6, 3, 2, 1),
        (6, 30, 2, 0),
        (0, 0, 0, 0),
        (6, None, 0, 0),
        (6, 0, None, 0),
        (None, 0, 0, 0),
        (101, 1, 0, 100),
    ],
)
def test_the_policy_level_1_bounds_its_counts(
    most: int | None, submitting: int | None, gathering: int | None, until_closed: int
) -> None:
    maxima = {} if most is None else {MAX_SUBMITTING_AND_GATHERING: most}
    said = {SUBMITTING: submitting, GATHERING: gathering, CURRENT: 99}
    numbers = {name: number for name, number in said.items() if number is not None}
    check(Throttle(policy=ThrottlePolicy.LEVEL1, maxima=maxima, advertised=numbers), until_closed)


@pytest.mark.parametrize(
    ("max_jobs", "most", "current", "submitting", "gathering", "until_closed"),
    [
        (41, 5, 40, 2, 1, 1),  # of jobs there is one left, of submitting and gathering two
        (50, 5, 40, 2, 1, 2),
        (50, 5, 40, 5, 0, 0),
        (50, 5, 40, 0, 5, 0),
        (40, 5, 40, 0, 0, 0),
        (41, 5, 50, 0, 0, 0),
        (10, 5, 0, 0, 0, 5),
        (3, 5, 0, 0, 0, 3),
        (50, 5, None, 0, 0, 0),
        (50, 5, 40, None, 0, 0),
        (50, 5, 40, 0, None, 0),
        (None, 5, 0, 0, 0, 0),
        (50, None, 0, 0, 0, 0),
        (50, 0, 0, 0, 0, 0),
    ],
)
def test_the_policy_level_2_bounds_its_counts(
    max_jobs: int | None,
    most: int | None,
    current: int | None,
    submitting: int | None,
    gathering: int | None,
    until_closed: int,
) -> None:
    given_maxima = {MAX_JOBS: max_jobs, MAX_SUBMITTING_AND_GATHERING: most}
    maxima = {name: number for name, number in given_maxima.items() if number is not None}
    said = {CURRENT: current, SUBMITTING: submitting, GATHERING: gathering}
    numbers = {name: number for name, number in said.items() if number is not None}
    check(Throttle(policy=ThrottlePolicy.LEVEL2, maxima=maxima, advertised=numbers), until_closed)


@pytest.mark.parametrize(
    ("requirements", "classad", "until_closed"),
    [
        ("CurMatches < 3", "CurMatches = 0", 3),
        ("CurMatches < 3", "CurMatches = 2", 1),
        ("CurMatches < 3", "CurMatches = 3", 0),
        ("CurMatches < 3", "CurrentJobs = 0", 0),  # no CurMatches
        ("true", "CurrentJobs = 0", 0),  # no CurMatches, even where nobody compares it
        ("CurMatches < MaxMatches", "CurMatches = 1; MaxMatches = 4", 3),
        ("CurMatches < MaxMatches", "CurMatches = 1", 0),  # undefined
        ("CurMatches + CurrentJobs < 10", "CurMatches = 1; CurrentJobs = 4", 5),
        ("5", "CurMatches = 0", 0),  # a number
        ('"true"', "CurMatches = 0", 0),  # a string
        ("1 / 0 < 1", "CurMatches = 0", 0),  # an error
        ("MY.CurMatches <", "CurMatches = 0", 0),  # no expression
        ("", "CurMatches = 0; Requirements = CurMatches < 2", 0),  # none is configured
        ("CurMatches < 5", "CurMatches = 0; Requirements = CurMatches < 2", 2),
        ("CurMatches < 1", "CurMatches = 0; Requirements = CurMatches < 2", 1),
        ("CurMatches < 5", "CurMatches = 0; Requirements = undefined", 0),
        ("TARGET.Processors == 1", "CurMatches = 0", 0),  # of a job without attributes
        ("Load < 0.5 && CurMatches < 4", "CurMatches = 0; Load = 0.2 + 0.1", 4),
        ("Load < 0.5 && CurMatches < 4", "CurMatches = 0; Load = CurMatches * 0.2", 3),
    ],
)
def test_the_policy_custom_evaluates_its_expression(requirements: str, classad: str, until_closed: int) -> None:
    advertisement = of_classad(classad)
    throttle = Throttle(
        policy=ThrottlePolicy.CUSTOM,
        maxima={},
        requirements=requirements,
        advertised=advertisement.numbers,
        classad=advertisement.classad,
    )
    check(throttle, until_closed)


OF_LEVEL_2 = "CurrentSubmittingJobs = 1; CurrentGatheringOutputJobs = 1; CurrentJobs = 4; CurMatches = 0"


#: By policy, the number from which it counts.
STARTS = (("matches", 0), ("level0", 1), ("level1", 2), ("level2", 4), ("custom", 0))
#: Advertised requirements, the most jobs that they accept, and whether that is known as a number.
REQUIREMENTS = (
    (None, 5, True),
    ("true", 5, True),
    ("false", 0, True),
    ("undefined", 0, True),
    ("1 / 0 == 1", 0, True),
    ("1", 0, True),
    ("Load < 1", 0, True),
    ("MaxJobs == 9", 5, True),
    ("CurMatches < {start} + 3", 3, False),
    ("MY.CurMatches < {start} + 30", 5, False),
    ("Limit", 2, False),
    ("TARGET.GPUs == 0", 0, False),
)


def test_advertised_requirements_must_be_true_under_every_policy(subtests: pytest.Subtests) -> None:
    for (policy, start), (requirements, most, in_one_number) in product(STARTS, REQUIREMENTS):
        with subtests.test(policy, requirements=requirements):
            check_requirements(policy, start, requirements=requirements, most=most, in_one_number=in_one_number)


def check_requirements(policy: str, start: int, *, requirements: str | None, most: int, in_one_number: bool) -> None:
    text = f"{OF_LEVEL_2}; Limit = CurMatches < {start} + 2"
    if requirements is not None:
        text += "; Requirements = " + requirements.format(start=start)
    advertisement = of_classad(text)
    throttle = Throttle(
        policy=ThrottlePolicy(policy),
        maxima={MAX_MATCHES: 5, MAX_SUBMITTING: 6, MAX_SUBMITTING_AND_GATHERING: 7, MAX_JOBS: 9},
        requirements=f"CurMatches < {start} + 5",
        advertised=advertisement.numbers,
        classad=advertisement.classad,
    )
    check(throttle, most)
    assert (throttle.room is not None) is (in_one_number and policy != "custom")
    assert throttle.start == start


def test_an_expression_sees_the_job() -> None:
    throttle = Throttle(
        policy=ThrottlePolicy.CUSTOM,
        maxima={},
        requirements="TARGET.Processors + CurMatches < 4",
        advertised={CUR_MATCHES: 0},
    )
    assert throttle.asks_of_the_job
    assert throttle.left(matched=0, job=classad_of({"Processors": 1})) == 3
    assert throttle.left(matched=0, job=classad_of({"Processors": 8})) == 0
    assert replace(throttle, requirements="CurMatches < 10000").left(matched=0) == MOST_TRIED
    assert not replace(throttle, requirements="Targets < 1").asks_of_the_job


def test_an_expression_about_the_time_is_evaluated_each_time() -> None:
    night = "time() % 86400 < 6 * 3600 && CurMatches < 3"
    throttle = Throttle(
        policy=ThrottlePolicy.MATCHES,
        maxima={MAX_MATCHES: 5},
        advertised={CUR_MATCHES: 0},
        classad="CurMatches = 0; Requirements = time() % 86400 < 6 * 3600",
        now=86_400 + 3600,
    )
    custom = replace(throttle, policy=ThrottlePolicy.CUSTOM, requirements=night, classad="")
    for each, room in ((throttle, 5), (custom, 3)):
        assert each.uses_time
        assert not each.asks_of_the_job
        assert each.room is None
        assert each.left(matched=0) == room
        by_day = replace(each, now=86_400 + 7 * 3600)
        assert by_day.left(matched=0) == 0
        assert by_day.in_the_way(matched=0) is not None
    assert not replace(custom, requirements="CurMatches < 3").uses_time


def test_the_steps_of_an_expression_are_shared_by_all_gateways() -> None:
    slow = '!regexp(".{50}x", t)'
    ads = [
        GatewayAdvertisement(gateway=str(i), numbers={CUR_MATCHES: 0}, classad=f't = "{"a" * 500}"') for i in range(16)
    ]
    throttle = Throttle(
        policy=ThrottlePolicy.CUSTOM, maxima={}, requirements=slow, advertised={CUR_MATCHES: 0}, gateways=tuple(ads[:2])
    )
    assert throttle.accepts(matched=0)
    assert not replace(throttle, gateways=tuple(ads)).accepts(matched=0)


def test_a_name_that_the_site_does_not_advertise_is_of_the_job() -> None:
    throttle = Throttle(
        policy=ThrottlePolicy.CUSTOM,
        maxima={},
        requirements="CPUTime < 3600 && CurMatches < 10",
        advertised={CUR_MATCHES: 2},
    )
    short, long = classad_of({"CPUTime": 500}), classad_of({"CPUTime": 5000})
    assert [throttle.left(matched=0, job=job) for job in (short, long)] == [8, 0]
    assert throttle.in_the_way(matched=0) is None
    advertised = replace(throttle, classad="CPUTime = 0")
    assert advertised.left(matched=0, job=long) == 8
    assert replace(advertised, requirements="TARGET.CPUTime < 3600").left(matched=0, job=long) == 0


@pytest.mark.parametrize(
    ("requirements", "lacking"),
    [
        ("CPUTme < 3600 && CurMatches < 10", ("CPUTme",)),
        ('Owner == "alice" && TARGET.Processors + Load < MaxJobs', ("MaxJobs", "Load", "TARGET.Processors")),
        ("CurMatches < MaxMatches", ("MaxMatches",)),
        ("isUndefined(Load) && CurMatches < 0", ()),
    ],
)
def test_the_names_that_make_an_expression_undefined_are_known(requirements: str, lacking: tuple[str, ...]) -> None:
    throttle = Throttle(policy=ThrottlePolicy.CUSTOM, maxima={}, requirements=requirements, advertised={CUR_MATCHES: 0})
    condition = throttle.in_the_way(matched=0)
    assert condition is not None
    assert condition.lacking == lacking


@pytest.mark.parametrize(
    ("requirements", "classad", "asks"),
    [
        ("CurMatches < 5", "", ()),
        ("TARGET.JobType == TARGET.Owner", "", ("jobtype", "owner")),
        ("true ? Load : -target . GPUs", "", ("gpus",)),
        ("member(TARGET.Owner, {TARGET.VO})", "", ("owner", "vo")),
        ("{1}[TARGET.Memory].x", "", ("memory",)),
        ("good", "good = [a = TARGET.Disk].a; Requirements = TARGET.Setup == 1", ("disk", "setup")),
        ('"TARGET.Owner" == JobType', "", ("jobtype",)),
        ("jobtype == CPUtime && Load < CurMatches", "JobType = Memory; Load = 1", ("cputime", "memory")),
        ("[a = Owner].a == MY.VO && Nowhere && MaxJobs > 1", "", ()),
        ("TARGET.Owner <", "", ()),
    ],
)
def test_the_job_attributes_of_an_expression_are_determined(
    requirements: str, classad: str, asks: tuple[str, ...]
) -> None:
    throttle = Throttle(
        policy=ThrottlePolicy.CUSTOM, maxima={}, requirements=requirements, advertised={}, classad=classad
    )
    assert throttle.asks_of_the_job == asks


def test_jobs_that_differ_in_unused_attributes_are_of_one_kind() -> None:
    throttle = Throttle(policy=ThrottlePolicy.CUSTOM, maxima={}, requirements="TARGET.JobType == 1", advertised={})
    merge, other, user = (
        classad_of({"JobType": job_type, "Owner": owner, "Tags": ["a"]})
        for job_type, owner in (("Merge", "alice"), ("Merge", "bob"), ("User", "alice"))
    )
    assert throttle.kind_of(merge) == throttle.kind_of(other)
    assert throttle.kind_of(merge) != throttle.kind_of(user)
    assert len({throttle.kind_of(job) for job in (merge, other, user, classad_of({}))}) == 3


@pytest.mark.parametrize(
    ("requirements", "classad"),
    [
        ("&&".join(["b"] * 1000), "b = " + "&&".join(["1+1==2"] * 1000)),
        ("&&".join(["a==a"] * 3000), 'a = "' + "x" * 30_000 + '"'),
        ("&&".join(["c==c"] * 3000), 'c = toupper(tolower(a)); a = "' + "x" * 30_000 + '"'),
        (
            "&&".join(["!member(a, l)"] * 1000),
            'a = "' + "x" * 10_000 + '"; l = {' + ",".join(['"' + "y" * 50 + '"'] * 900) + "}",
        ),
    ],
)
def test_an_expression_that_takes_long_is_closed(requirements: str, classad: str) -> None:
    throttle = Throttle(
        policy=ThrottlePolicy.CUSTOM,
        maxima={},
        requirements=requirements,
        advertised={CUR_MATCHES: 0},
        classad=classad,
    )
    assert not throttle.accepts(matched=0)


def test_the_attributes_of_target_are_those_that_jobs_have() -> None:
    assert set(JOB_ATTRIBUTES) == set(NAMES)


def test_missing_values_are_named() -> None:
    throttle = Throttle(policy=ThrottlePolicy.LEVEL2, maxima={MAX_JOBS: 1}, advertised={SUBMITTING: 0, CURRENT: 0})
    assert throttle.missing == (MAX_SUBMITTING_AND_GATHERING, GATHERING)
    assert replace(throttle, policy=ThrottlePolicy.CUSTOM).missing == (CUR_MATCHES,)


# ---- Properties ------------------------------------------------------------------------------------------------------


@st.composite
def throttles(draw: st.DrawFn) -> Throttle:
    few = st.integers(0, 12)
    counted = {name: draw(few) for name in (SUBMITTING, GATHERING, CURRENT, CUR_MATCHES) if draw(st.integers(0, 9))}
    names = (MAX_MATCHES, MAX_SUBMITTING, MAX_SUBMITTING_AND_GATHERING, MAX_JOBS)
    configured = {name: draw(few) for name in names if draw(st.integers(0, 9))}
    advertised = {name: draw(few) for name in names if draw(st.booleans())}
    return Throttle(
        policy=draw(st.sampled_from([policy for policy in ThrottlePolicy if policy])),
        maxima=configured,
        requirements=draw(st.sampled_from(["CurMatches < 4", "CurMatches + CurrentJobs < MaxJobs", "CurMatches != 3"])),
        advertised={**counted, **advertised},
    )


@given(throttles(), st.integers(0, 20))
def test_the_room_equals_the_number_of_accepted_matches(throttle: Throttle, matched: int) -> None:
    left = throttle.left(matched=matched)
    until = range(matched, matched + min(left, 50))
    assert all(throttle.accepts(matched=each) for each in until)
    assert left == MOST_TRIED or not throttle.accepts(matched=matched + left)


@given(throttles(), st.sampled_from([SUBMITTING, GATHERING, CURRENT]), st.integers(1, 5), st.integers(0, 20))
def test_more_jobs_never_open_more_room(throttle: Throttle, name: str, more: int, matched: int) -> None:
    if name not in throttle.advertised:
        return
    busier: Numbers = {**throttle.advertised, name: throttle.advertised[name] + more}
    assert replace(throttle, advertised=busier).left(matched=matched) <= throttle.left(matched=matched)


@given(throttles(), st.integers(0, 20))
def test_a_match_never_increases_the_room_and_closed_stays_closed(throttle: Throttle, matched: int) -> None:
    if throttle.policy is ThrottlePolicy.CUSTOM:
        return  # an expression may say anything
    assert throttle.left(matched=matched + 1) == max(0, throttle.left(matched=matched) - 1)


# ---- Advertisements --------------------------------------------------------------------------------------------------


def test_left_out_cur_matches_starts_at_0_as_numbers_and_is_undefined_as_a_classad() -> None:
    assert of_numbers({CURRENT: 1}).numbers == {CURRENT: 1, CUR_MATCHES: 0}
    assert of_numbers({CUR_MATCHES: 4}).numbers == {CUR_MATCHES: 4}
    assert of_classad("CurrentJobs = 1").numbers == {CURRENT: 1}


def test_a_classad_keeps_everything_and_its_numbers_are_read_whatever_their_case() -> None:
    text = "[ currentjobs = 2 * 3; Other = { 1, 2 }; WANTADREEVALUATE = false; MaxJobs = CurrentJobs + 1; ]"
    assert of_classad(text, sequence=3, measured_s_ago=1.5) == Advertisement(
        numbers={CURRENT: 6, MAX_JOBS: 7}, classad=text, sequence=3, measured_s_ago=1.5
    )


@pytest.mark.parametrize(
    "text",
    [
        "CurMatches = 0\nWantAdReevaluate = TRUE",
        "\n\nCurMatches = 0\r\n  WantAdReevaluate = TRUE\r\n\r\n",
        "# of the gateway\nCurMatches = 0\n# CurMatches = 5\nWantAdReevaluate = TRUE // yes\n",
        "CurMatches = 0;\nWantAdReevaluate = TRUE",
        "CurMatches =\n  0\nWantAdReevaluate = TRUE\n",
    ],
)
def test_one_attribute_on_each_line_is_read_as_a_record_is(text: str) -> None:
    advertisement = of_classad(text)
    assert advertisement.numbers == {CUR_MATCHES: 0}
    throttle = Throttle(
        policy=ThrottlePolicy.CUSTOM,
        maxima={},
        requirements="CurMatches < 3 && WantAdReevaluate",
        advertised=advertisement.numbers,
        classad=advertisement.classad,
    )
    check(throttle, 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A = 1 B = 2", "Line 1, column 7: `;` is expected after the value of `A`, not `B`."),
        ("A = 1\n/* on */ B = 2", "Line 2, column 10: `;` is expected"),
        ("A = 1\nB 2", "Line 2, column 1: `;` is expected"),
        ("[ A = 1\nB = 2 ]", "Line 2, column 1: `;` is expected"),
        ("A = 1\na = 2", "Line 2, column 1: The attribute `a` is given twice"),
        ('A = "x\nB = 2', "This string has no end"),
    ],
)
def test_a_malformed_classad_is_reported_with_its_position(text: str, sentence: str) -> None:
    with pytest.raises(ClassAdError, match=re.escape(sentence)):
        of_classad(text)


@pytest.mark.parametrize(
    "value", ["-1", "1.0", "2147483648", "true", '"1"', "undefined", "error", "{1}", "1/0", "Other"]
)
@pytest.mark.parametrize("name", [CUR_MATCHES, SUBMITTING, MAX_JOBS])
def test_a_known_number_is_whole_and_at_least_0(name: str, value: str) -> None:
    with pytest.raises(ClassAdError, match=f"{name} must be a whole number from 0 to 2147483647"):
        of_classad(f"{name} = {value}")


@pytest.mark.parametrize(
    "text", ["", "[", "a b", "A = 1; a = 2", "A = " + "(" * 70 + "1" + ")" * 70, f'A = "{"x" * 65536}"']
)
def test_an_invalid_or_too_large_classad_is_refused(text: str) -> None:
    if not text:
        assert of_classad(text).numbers == {}
        return
    with pytest.raises(ClassAdError, match=r"^Line 1, column"):
        of_classad(text)


def test_an_attribute_that_takes_too_long_is_refused() -> None:
    sums = "".join(f"A{n} = A{n + 1} + A{n + 1};" for n in range(60))
    with pytest.raises(ClassAdError, match="takes too long to evaluate"):
        of_classad(f"MaxJobs = A0; {sums} A60 = 1")
