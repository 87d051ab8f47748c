"""What failed jobs have in common that others have not."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.commonalities import Commonality, ComparedJobs, Facts, Relation, facts_of_words


def common_to(failed: Sequence[Facts], others: Sequence[Facts]) -> list[Commonality]:
    return ComparedJobs([*failed, *others]).common_to(range(len(failed)))


def jobs(*, number: int, hosts: int = 5, seed: int = 1) -> list[dict[str, str | float]]:
    chance = Random(seed)
    return [
        {"host": f"wn{chance.randrange(hosts)}", "--seed": float(place), "started": chance.random()}
        for place in range(number)
    ]


def told(common: list[Commonality]) -> list[tuple[str, str, str | float, int, int, int, int]]:
    return [
        (each.name, each.relation, each.value, each.failed, each.of_failed, each.others, each.of_others)
        for each in common
    ]


def test_it_is_said_in_a_sentence_with_its_numbers() -> None:
    def sentence(name: str, relation: Relation, value: str | float, failed: int = 31, others: int = 0) -> str:
        return Commonality(
            name=name, relation=relation, value=value, failed=failed, of_failed=31, others=others, of_others=969
        ).sentence

    assert sentence("host", Relation.IS, "wn3") == "All 31 ran on wn3; none of 969 others."
    assert sentence("--seed", Relation.ABOVE, 900.0, 30, 2) == "30 of 31 have --seed > 900; 2 of 969 others."
    assert sentence("--all", Relation.IS, "given") == "All 31 have --all; none of 969 others."
    assert sentence("argument 1", Relation.IS, "x y") == "All 31 have argument 1 x y; none of 969 others."
    started = sentence("started", Relation.ABOVE, 1_800_000_000.0)
    assert started == "All 31 started after 2027-01-15 08:00:00 UTC; none of 969 others."


def split(all_jobs: list[dict[str, str | float]], fails: object) -> tuple[list[Facts], list[Facts]]:
    assert callable(fails)
    return [job for job in all_jobs if fails(job)], [job for job in all_jobs if not fails(job)]


def test_a_host_at_which_all_failed_is_named_with_its_numbers() -> None:
    failed, others = split(jobs(number=1000), lambda job: job["host"] == "wn3")
    first, *_ = told(common_to(failed, others))
    assert first == ("host", "is", "wn3", len(failed), len(failed), 0, len(others))


def test_a_bound_of_a_parameter_is_found_from_either_end() -> None:
    failed, others = split(jobs(number=1000), lambda job: job["--seed"] > 968)
    assert told(common_to(failed, others)) == [("--seed", ">", 968.0, 31, 31, 0, 969)]
    failed, others = split(jobs(number=1000), lambda job: job["--seed"] < 20)
    assert told(common_to(failed, others)) == [("--seed", "<", 20.0, 20, 20, 0, 980)]


def test_most_suffices_and_the_exceptions_are_counted() -> None:
    everything = jobs(number=500)
    failed, others = split(everything, lambda job: job["--seed"] > 449)
    failed, others = [*failed, others[0]], others[1:]
    assert told(common_to(failed, others)) == [("--seed", ">", 449.0, 50, 51, 0, 449)]


def test_what_most_jobs_have_is_no_reason() -> None:
    failed, others = split([{"site": "A", **job} for job in jobs(number=200)], lambda job: job["--seed"] % 7 == 0)
    assert common_to(failed, others) == []


def test_failures_by_chance_have_nothing_in_common() -> None:
    chance = Random(7)
    for seed in range(100):
        failed, others = split(jobs(number=300, seed=seed), lambda _: chance.random() < 0.03)
        assert common_to(failed, others) == []


@pytest.mark.parametrize("failed", [0, 1, 2])
def test_few_failures_prove_nothing(failed: int) -> None:
    assert common_to(jobs(number=failed), jobs(number=20, seed=2)) == []
    assert common_to(jobs(number=20), []) == []


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ("--seed 917 data", {"--seed": 917.0, "argument 1": "data"}),
        ("--seed=917", {"--seed": 917.0}),
        ("seed=9 -v -n 3", {"seed": 9.0, "-v": "given", "-n": 3.0}),
        ("-5 x", {"argument 1": -5.0, "argument 2": "x"}),
        ("--offset -5 --all", {"--offset": -5.0, "--all": "given"}),
        ("run7.root", {"argument 1": "run7.root", "number in argument 1": 7.0}),
        ("a7b8 nan", {"argument 1": "a7b8", "argument 2": "nan"}),
        ("'two words' \"open", {"argument 1": "'two", "argument 2": "words'", "argument 3": '"open'}),
        ("", {}),
    ],
)
def test_words_are_facts_by_name_or_place(arguments: str, facts: dict[str, object]) -> None:
    assert facts_of_words(arguments) == facts


@given(st.text(max_size=200))
def test_any_arguments_are_read(arguments: str) -> None:
    assert all(isinstance(value, str | float) for value in facts_of_words(arguments).values())


@given(
    failed=st.lists(
        st.dictionaries(st.sampled_from("ab"), st.one_of(st.floats(allow_nan=False), st.text())), max_size=9
    ),
    others=st.lists(
        st.dictionaries(st.sampled_from("ab"), st.one_of(st.floats(allow_nan=False), st.text())), max_size=9
    ),
)
def test_what_is_told_is_true(failed: list[Facts], others: list[Facts]) -> None:
    def has(job: Facts, told: Commonality) -> bool:
        value = job.get(told.name)
        if told.relation is Relation.IS or not isinstance(value, float) or not isinstance(told.value, float):
            return value == told.value
        return value > told.value if told.relation is Relation.ABOVE else value < told.value

    for each in common_to(failed, others):
        assert each.failed == sum(has(job, each) for job in failed)
        assert each.others == sum(has(job, each) for job in others)
