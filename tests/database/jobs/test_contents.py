"""What jobs of a submission have in common: lists and summaries that rely on it are what the filters alone give."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import combinations, repeat
from random import Random

import pytest

from tests import factories
from tests.factories import NOW, submit
from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job, NameRest, SubmissionContent
from wms.jobs.queries.found_jobs import Extent
from wms.jobs.services import editing
from wms.jobs.sql.counts import add_count_changes, recount_jobs, wrong_job_counts

pytestmark = pytest.mark.django_db
#: Labels, and stems of names, that are noted of a submission whose jobs differ in them.
MOST = 16


def submitted(owner: User, names: Iterable[str], labels: Iterable[str] = repeat("")) -> SubmissionContent:
    """Submit jobs of these names and labels; return the content of the submission."""
    named = zip(names, labels, strict=False)
    jobs = [{"executable": "a.sh", "job_name": name, "job_group": label} for name, label in named]
    result = submit(parse_submission({"jobs": jobs}), owner=owner, now=NOW)
    return SubmissionContent.objects.get(submission=result.job_group_id)


@pytest.fixture
def alice() -> User:
    return factories.make_user(username="alice", groups=[factories.make_group(vo=factories.make_vo(name="lhcb"))])


@pytest.mark.parametrize(
    ("names", "prefix", "rest"),
    [
        (["sim-7"], "sim-7", NameRest.NOTHING),
        (["", ""], "", NameRest.NOTHING),
        (["sim-1", "sim-20", "sim-"], "sim-", NameRest.DIGITS),
        (["1", "22"], "", NameRest.DIGITS),
        (["sim-1a", "sim-1b"], "sim-1", NameRest.ANYTHING),
        (["Größe 1", "Grün"], "Gr", NameRest.ANYTHING),
        (["sim", "ana"], "", NameRest.ANYTHING),
        # "_" sorts between the cases in some languages; the shared beginning does not depend on that.
        (["a_1x", "aB", "ab"], "a", NameRest.ANYTHING),
    ],
)
def test_the_common_prefix_of_names_is_stored(alice: User, names: list[str], prefix: str, rest: NameRest) -> None:
    content = submitted(alice, names)
    assert (content.name_prefix, content.name_rest) == (prefix, rest)
    jobs = Job.objects.filter(submission=content.submission_id).order_by("pk")
    assert (content.first_job_id, content.last_job_id) == (jobs[0].pk, jobs[len(names) - 1].pk)
    assert wrong_job_counts() == 0


@pytest.mark.parametrize(
    ("names", "edited", "prefix", "rest"),
    [
        (["sim-7"], "sim-8", "sim-", NameRest.DIGITS),
        (["sim-7", "sim-8"], "sim-9", "sim-", NameRest.DIGITS),
        (["sim-7", "sim-8"], "simulation", "sim", NameRest.ANYTHING),
        (["sim-7a", "sim-8"], "so", "s", NameRest.ANYTHING),
        (["sim-7", "sim-7"], "sim-7", "sim-7", NameRest.NOTHING),
    ],
)
def test_an_edited_name_extends_the_summary(
    alice: User, names: list[str], edited: str, prefix: str, rest: NameRest
) -> None:
    content = submitted(alice, names)
    editing.edit(content.first_job_id, changes={"job_name": edited, "priority": 3}, by=alice, now=NOW)
    content.refresh_from_db()
    assert (content.name_prefix, content.name_rest) == (prefix, rest)
    assert wrong_job_counts() == 0


def test_jobs_that_differ_are_noted_to_differ(alice: User) -> None:
    jobs = [{"executable": "a.sh", "job_type": kind, "job_group": label} for kind, label in (("A", "x"), ("B", "y"))]
    result = submit(parse_submission({"jobs": jobs}), owner=alice, now=NOW)
    content = SubmissionContent.objects.get(submission=result.job_group_id)
    assert (content.job_type, content.job_group, content.submitted_at) == (None, None, NOW)


def test_few_labels_and_stems_of_names_are_noted(alice: User) -> None:
    content = submitted(alice, ["sim-1", "sim-22", "ana7", "3"], ["b", "b", "a", ""])
    assert (content.job_group, content.labels) == (None, ["", "a", "b"])
    assert (content.name_rest, content.name_stems) == (NameRest.ANYTHING, ["", "ana", "sim-"])
    alike = submitted(alice, ["sim-1", "sim-22"], "bb")
    assert (alike.labels, alike.name_stems) == (None, None)
    assert wrong_job_counts() == 0


@pytest.mark.parametrize(("number", "noted"), [(MOST, MOST), (MOST + 1, 0)])
def test_too_many_different_values_store_none(alice: User, number: int, noted: int) -> None:
    content = submitted(alice, [f"{each}x" for each in range(number)], [f"label{each}" for each in range(number)])
    assert content.labels is not None
    assert content.name_stems is not None
    assert (len(content.labels), len(content.name_stems)) == (noted, noted)
    assert wrong_job_counts() == 0


@pytest.mark.parametrize(
    ("jobs", "changes", "labels", "stems"),
    [
        ({"sim-1": "a", "sim-2": "a"}, {"job_group": "b"}, ["a", "b"], None),
        ({"sim-1": "a", "sim-2": "a"}, {"job_name": "ana-1"}, None, ["ana-", "sim-"]),
        ({"sim-1": "a", "fit2": "b"}, {"job_group": "c", "job_name": "x"}, ["a", "b", "c"], ["fit", "sim-", "x"]),
        ({f"{n}x": f"{n}" for n in range(MOST)}, {"job_group": "new", "job_name": "new"}, [], []),
        ({f"{n}x": f"{n}" for n in range(MOST + 1)}, {"job_group": "new", "job_name": "new"}, [], []),
    ],
)
def test_an_edited_job_adds_its_values_to_the_summary(
    alice: User, jobs: dict[str, str], changes: dict[str, str], labels: list[str] | None, stems: list[str] | None
) -> None:
    content = submitted(alice, jobs.keys(), jobs.values())
    Job.objects.filter(pk=content.first_job_id).update(**changes)
    content.refresh_from_db()
    assert (content.labels, content.name_stems) == (labels, stems)
    assert wrong_job_counts() == 0


@pytest.mark.parametrize(
    ("lost", "wrong_jobs"),
    [
        ({"labels": ["a"]}, 1),
        ({"name_stems": ["ana"]}, 1),
        ({"labels": None}, 2),
        ({"name_stems": None}, 2),
        ({"name_rest": NameRest.NOTHING}, 2),
        (None, 2),
    ],
)
def test_verify_compares_the_contents_and_a_recount_notes_them_anew(
    alice: User, lost: dict[str, object] | None, wrong_jobs: int
) -> None:
    submitted(alice, ["sim-1", "ana7"], "ba")
    (noted,) = SubmissionContent.objects.values()
    if lost is None:
        SubmissionContent.objects.all().delete()
    else:
        SubmissionContent.objects.update(**lost)
    assert wrong_job_counts() == wrong_jobs
    recount_jobs()
    assert wrong_job_counts() == 0
    assert SubmissionContent.objects.values().get() == noted


#: Values of each filter; some match nothing.
VALUES: Mapping[str, tuple[str, ...]] = {
    "status": ("Waiting", "Failed,Done", "Killed"),
    "exit_code": ("0", "1", "7"),
    "job_type": ("User", "Sim", "Other"),
    "job_group": ("one", "two", "label3", "none"),
    "job_name": (
        *("sim-1", "sim-10", "", "a_1x", "*", "sim-*", "sim-1*", "s*", "*1"),
        *("*-1*", "sim*1", "*im-*2*", "a_*", "*x", "sim-*x", "**", "si*-", "3x", "*B", "m*", "*-"),
    ),
    "submitted_after": ((NOW + timedelta(hours=12)).isoformat(),),
    "submitted_before": ((NOW + timedelta(hours=12)).isoformat(),),
    "site": ("CERN",),
    "owner": ("alice",),
    "minor_status": ("lost", "l*t", "found"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values_of_each", "found_at_least"),
    [pytest.param(2, 30, id="two values of each"), pytest.param(99, 150, id="all values")],
)
def test_lists_and_summaries_are_what_the_filters_alone_give(
    alice: User, values_of_each: int, found_at_least: int
) -> None:
    chance = Random(3)
    bob = factories.make_user(username="bob", groups=[factories.make_group()])
    names = (["sim-1"], ["sim-1", "sim-2", "sim-10"], ["sim-1x", "sim-1y"], ["", "7"], ["a_1x", "aB"], ["sim-"])
    site = factories.make_site(name="CERN")
    for number in range(24):
        owner = chance.choice([alice, bob])
        jobs = [
            {"executable": "a.sh", "job_name": name, "job_type": chance.choice(["User", "Sim"]), "job_group": label}
            for label in [chance.choice(["one", "two", ""])]
            for name in chance.choice(names) * chance.choice([1, 3])
        ]
        if number % 3:
            jobs = [{**job, "job_type": jobs[0]["job_type"]} for job in jobs]
        if number % 5 == 0:
            jobs[-1]["job_group"] = "two"
        if number % 8 == 0:
            # Too many labels and names to be noted.
            jobs += [{**jobs[0], "job_group": f"label{each}", "job_name": f"{each}x"} for each in range(MOST)]
        submit(parse_submission({"jobs": jobs}), owner=owner, now=NOW + timedelta(hours=number))
        if number == 12:
            add_count_changes()
    for job in Job.objects.all():
        code = chance.choice([None, 0, 1, 7])
        status = JobStatus.WAITING if code is None else JobStatus.FAILED if code else JobStatus.DONE
        ended = {"status": status, "ended_at": NOW, "exit_code": code, "site": chance.choice([None, site])}
        Job.objects.filter(pk=job.pk).update(**(ended if code is not None else {}))
        Job.objects.filter(pk=job.pk).update(minor_status=chance.choice(["", "lost", "left"]))
    operator = factories.make_user(operator=True)
    middle = Job.objects.order_by("pk")[Job.objects.count() // 2].pk
    values_of = {**VALUES, "id": (str(middle), "0")}
    chosen = [{name: value} for name, values in values_of.items() for value in values[:values_of_each]]
    chosen += [{**one, **two} for one, two in combinations(chosen, 2) if one.keys() != two.keys()]
    found_some = 0
    for number, values in enumerate(chosen):
        actor = (alice, operator)[number % 2]
        filters = JobFilterSet(values)
        assert filters.is_valid(), values
        jobs = JobFilterSet(values, Job.objects.visible_to(actor)).qs
        extent = (
            Extent(at_most=3),
            Extent(at_most=3, after=middle, newest_first=False),
            Extent(at_most=99, before=middle),
        )[number % 3]
        ids = list(
            extent.within(jobs)
            .order_by("-pk" if extent.newest_first else "pk")
            .values_list("pk", flat=True)[: extent.at_most]
        )
        assert [job.pk for job in queries.listed(filters, extent, by=actor)] == ids, (values, actor, extent)
        groupings = (("status",), ("job_type", "owner"), ("group", "status"), ("site", "owner"))
        # Jobs at a site are counted in more than one way.
        for group_by in groupings if "site" in values else (groupings[number // 2 % 3],):
            tallies = {
                tuple(tally.values.values()): tally.count
                for tally in queries.summary(filters, by=actor, group_by=group_by)
            }
            assert tallies == Counter(jobs.values_list(*(queries.GROUP_BY[name] for name in group_by))), (values, actor)
        found_some += bool(ids)
    assert found_some > found_at_least
