"""The grammar of the search box of the list of jobs."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wms.jobs.domain.lifecycle import JobStatus
from wms.portal.search import EVERYBODY, KEYS, parse, query_of, text_of

NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)
SUBMISSION = "8e0e8f0a-59b4-4a3e-9c1b-0d9f0c6c9a11"


def filters_of(text: str) -> dict[str, str]:
    search = parse(text, now=NOW)
    assert search.errors == ()
    return search.filters


def test_every_key_is_a_filter() -> None:
    text = (
        f"id:71,80-90 name:scan-* status:failed,STALLED site:CERN host:wn1 since:2d before:1d exit:-2 reason:lost "
        "cause:0123456789 "
        f'group:lhcb_user owner:alice submission:{SUBMISSION} task-queue:012 label:"two words" type:User vo:lhcb'
    )
    filters = filters_of(text)
    assert filters == {
        "id": "71,80-90",
        "job_name": "scan-*",
        "status": "Failed,Stalled",
        "site": "CERN",
        "host": "wn1",
        "submitted_after": (NOW - timedelta(days=2)).isoformat(),
        "submitted_before": (NOW - timedelta(days=1)).isoformat(),
        "exit_code": "-2",
        "minor_status": "lost",
        "cause": "0123456789",
        "group": "lhcb_user",
        "owner": "alice",
        "job_group_id": SUBMISSION,
        "task_queue": "12",
        "job_group": "two words",
        "job_type": "User",
        "vo": "lhcb",
    }
    assert filters.keys() == set(KEYS.values())


@pytest.mark.parametrize("text", ["71", " 71 ", "0071"])
def test_a_bare_number_is_the_id_of_a_job(text: str) -> None:
    assert parse(text, now=NOW).job_id == 71


@pytest.mark.parametrize("text", ["71 scan", "7a", "²", "9" * 19, "9" * 40, ""])
def test_anything_else_is_not_an_id(text: str) -> None:
    assert parse(text, now=NOW).job_id is None


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("scan", "*scan*"),
        ("scan 2026", "*scan*2026*"),
        ('"two words"', "*two words*"),
        ("scan-*", "scan-*"),
        ("*a* b", "*a*b*"),
    ],
)
def test_bare_words_are_parts_of_the_name(text: str, pattern: str) -> None:
    assert filters_of(text) == {"job_name": pattern}


def test_statuses_of_several_words_are_one_list() -> None:
    assert filters_of("status:failed status:Held,failed") == {"status": "Failed,Held"}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30m", NOW - timedelta(minutes=30)),
        ("12h", NOW - timedelta(hours=12)),
        ("3w", NOW - timedelta(weeks=3)),
        ("2026-06-01", datetime(2026, 6, 1, tzinfo=UTC)),
        ("2026-06-01T12:30:00Z", datetime(2026, 6, 1, 12, 30, tzinfo=UTC)),
        ("2026-06-01T12:30", datetime(2026, 6, 1, 12, 30, tzinfo=UTC)),
        ("2026-06-01T12:30:00+02:00", datetime(2026, 6, 1, 10, 30, tzinfo=UTC)),
    ],
)
def test_times_are_durations_or_dates(text: str, moment: datetime) -> None:
    assert filters_of(f"since:{text}") == {"submitted_after": moment.isoformat()}


def test_the_original_words_are_kept_with_their_meaning() -> None:
    search = parse("since:2d status:failed", now=NOW)
    assert search.words == {"submitted_after": "2d", "status": "Failed"}
    assert text_of(search.words) == "status:Failed since:2d"


@pytest.mark.parametrize(
    ("text", "sentence", "left"),
    [
        ("stats:failed site:CERN", 'There is no key "stats". Did you mean "status"?', {"site": "CERN"}),
        ("status:faild,done", 'There is no status "faild". Did you mean "Failed"?', {"status": "Done"}),
        ("status:faild", 'There is no status "faild". Did you mean "Failed"?', {}),
        ("since:yesterday scan", '"yesterday" is no time', {"job_name": "*scan*"}),
        ("since:999999w", '"999999w" is no time', {}),
        ("before:0001-01-01T00:00:00+05:00", "is no time", {}),
        ("exit:two", "An exit code is a number", {}),
        ("exit:99999999999", "An exit code is a number", {}),
        ("id:x", "Ids of jobs are numbers and ranges", {}),
        ("submission:x", "Enter a valid UUID.", {}),
        ("site: CERN", "Write a value after site:", {"job_name": "*CERN*"}),
        ("site:a site:b", "site:b is left out, because site: is given twice.", {"site": "a"}),
        ("name:a b", '"b" is left out', {"job_name": "a"}),
        ('name:"a group:g', 'A quotation mark is not closed: name:"a is left out.', {"group": "g"}),
    ],
)
def test_unknown_words_are_reported_and_the_others_apply(text: str, sentence: str, left: dict[str, str]) -> None:
    search = parse(text, now=NOW)
    assert len(search.errors) == 1
    assert sentence in search.errors[0]
    assert search.filters == left


def test_links_are_made_of_keys_or_parameters() -> None:
    link = query_of({"job_group_id": SUBMISSION}, status=[JobStatus.FAILED, JobStatus.DONE], owner=EVERYBODY, site=None)
    assert parse_qs(link) == {"q": [f"status:Done,Failed owner:* submission:{SUBMISSION}"]}
    assert query_of() == "q="
    with pytest.raises(KeyError):
        query_of(colour="red")


VALUES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


@given(values=st.dictionaries(st.sampled_from(["name", "site", "host", "group", "reason", "label"]), VALUES))
@example(values={"name": " ", "site": "a"})
def test_a_link_is_parsed_to_the_filters_it_was_made_of(values: dict[str, str]) -> None:
    search = parse(text_of(values), now=NOW)
    assert search.errors == ()
    again = {KEYS[key]: value for key, value in values.items() if value.strip()}
    # Names are compared in their composed form.
    assert text_of(search.filters) == text_of(parse(text_of(again), now=NOW).filters)
    assert search.filters.keys() == again.keys()


@given(text=st.text(max_size=200) | st.from_regex(r'([a-z]{2,6}:["\\a-z0-9*,. -]{0,9} ?){0,6}', fullmatch=True))
def test_any_text_has_a_meaning_that_can_be_written_as_a_query(text: str) -> None:
    search = parse(text, now=NOW)
    again = parse(text_of(search.filters), now=NOW)
    assert again.errors == ()
    assert again.filters == search.filters
