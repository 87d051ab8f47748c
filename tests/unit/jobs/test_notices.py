"""The text of mail about a submission that has ended, and when it is wanted."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from wms.accounts.domain import MailWhen
from wms.jobs.domain.notices import EndedSubmission, is_wanted, subject_of, text_of

URL = "https://wms.example.org/submissions/00000000-0000-0000-0000-000000000007/"


def ended(
    *, name: str = "scan-", jobs: dict[str, int] | None = None, failures: dict[int | None, int] | None = None
) -> EndedSubmission:
    return EndedSubmission(
        id=UUID(int=7),
        name=name,
        submitted_at=datetime(2026, 7, 1, 12, 0, tzinfo=UTC),
        jobs={"Done": 1000} if jobs is None else jobs,
        failures=failures or {},
        url=URL,
    )


def test_the_message_names_counts_failures_and_the_page() -> None:
    some_failed = ended(jobs={"Done": 9981, "Failed": 19, "Killed": 1}, failures={2: 15, None: 3, -9: 1})
    assert subject_of(some_failed) == "scan-: 19 of 10,001 jobs failed"
    assert text_of(some_failed).splitlines() == [
        "All jobs of your submission scan- have ended.",
        "",
        "Submitted: 2026-07-01 12:00 UTC",
        "Done: 9,981 jobs",
        "Failed: 19 jobs",
        "Killed: 1 job",
        "",
        "Failures by exit code:",
        "  exit code 2: 15 jobs",
        "  no exit code: 3 jobs",
        "  exit code -9: 1 job",
        "",
        URL,
        "",
        "You chose these messages on the page of your account, where you can end them.",
    ]


def test_a_message_without_failures_does_not_mention_them() -> None:
    assert subject_of(ended()) == "scan-: 1,000 of 1,000 jobs done"
    assert "exit code" not in text_of(ended())


def test_many_exit_codes_are_summed_up() -> None:
    text = text_of(ended(jobs={"Failed": 30}, failures=dict.fromkeys(range(1, 31), 1)))
    assert "  exit code 20: 1 job\n  other exit codes: 10 jobs\n" in text


@pytest.mark.parametrize(
    "name",
    ["scan\r\nBcc: all@example.org", "scan\nBcc: all@example.org", "scan\u2028Bcc: all@example.org"],
)
def test_a_name_cannot_add_a_line(name: str) -> None:
    message = ended(name=name)
    assert subject_of(message) == "scan Bcc: all@example.org: 1,000 of 1,000 jobs done"
    assert text_of(message).splitlines()[0] == "All jobs of your submission scan Bcc: all@example.org have ended."


def test_a_name_cannot_turn_the_text_round_and_is_bounded() -> None:
    assert "\u202e" not in subject_of(ended(name="scan\u202egnp"))
    assert len(subject_of(ended(name="x" * 5000))) < 140


@pytest.mark.parametrize("name", ["", " ", "\x00\x1b"])
def test_a_submission_without_a_name_is_called_by_its_time(name: str) -> None:
    assert subject_of(ended(name=name)).startswith("of 2026-07-01 12:00 UTC: ")


@pytest.mark.parametrize(
    ("when", "failed", "wanted"),
    [
        (MailWhen.NEVER, 3, False),
        (MailWhen.ENDED, 0, True),
        (MailWhen.ENDED, 3, True),
        (MailWhen.FAILED, 0, False),
        (MailWhen.FAILED, 3, True),
    ],
)
def test_mail_is_sent_when_it_is_wanted(when: MailWhen, failed: int, wanted: bool) -> None:
    assert is_wanted(when, ended(jobs={"Done": 7, "Failed": failed})) is wanted
