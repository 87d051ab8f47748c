"""The sentences about queues that jobs fit, and of facts."""

from matching.domain.facts import Change, WaitReason, fact, in_words
from matching.domain.findings import CheckedData, Explanation, Fit
from matching.domain.sentences import fit_in_words, summary
from tests.factories import NOW
from wms.jobs.domain.lifecycle import JobStatus

NOTHING = Fit(queues=3, fitting=0, closed=0, sites=(), exclusions=(), never="")
CLOSED = Fit(queues=1, fitting=0, closed=1, sites=(), exclusions=(), never="")
FITS = Fit(queues=2000, fitting=2, closed=1, sites=("LCG.CERN.ch", "LCG.PIC.es"), exclusions=(), never="")


def test_queues_that_one_job_or_several_fit() -> None:
    assert [(fit_in_words(fit, jobs=1), fit_in_words(fit, jobs=2)) for fit in (NOTHING, CLOSED, FITS, None)] == [
        ("fits none of 3 queues", "fit none of 3 queues"),
        (
            "fits 1 of 1 queue, but none of these accepts jobs at present",
            "fit 1 of 1 queue, but none of these accepts jobs at present",
        ),
        ("fits 2 of 2,000 queues, at LCG.CERN.ch, LCG.PIC.es", "fit 2 of 2,000 queues, at LCG.CERN.ch, LCG.PIC.es"),
        (
            "would be Checking, because no site where it may run holds its input data",
            "would be Checking, because no site where they may run holds their input data",
        ),
    ]


def test_facts_hold_times_names_and_other_facts() -> None:
    again = fact(WaitReason.ASKED_AGAIN, at=NOW)
    assert in_words(fact(WaitReason.FAILS, ce="ce01", trouble="no route", again=again)) == (
        f"computing element ce01 fails: no route; it is queried again at {NOW:%Y-%m-%d %H:%M %Z}"
    )
    assert in_words(fact(Change.MORE_TAGS, names=("gpu",))) == "with the tag gpu"
    assert in_words(fact(Change.MORE_TAGS, names=("gpu", "ssd"))) == "with the tags gpu, ssd"
    assert in_words("site LCG.CERN.ch is banned") == "site LCG.CERN.ch is banned"


def test_a_job_that_does_not_wait_names_its_status_place_and_reason() -> None:
    checked = (
        "It is being checked (why) and is in no task queue yet: it goes into one when a site where it may run holds "
        "all of its input data."
    )
    expected = {
        JobStatus.RECEIVED: "It has been received and is in no task queue yet.",
        JobStatus.CHECKING: checked,
        JobStatus.WAITING: "It has just left its task queue; repeat the request.",
        JobStatus.HELD: "It is Held (why) and in no task queue until it is released.",
        JobStatus.MATCHED: "It is Matched at PIC: a pilot has taken it and is about to start it.",
        JobStatus.RUNNING: "It is Running at PIC.",
        JobStatus.STALLED: "It is Stalled at PIC: its pilot has fallen silent, and when the lease ends it waits again.",
        JobStatus.COMPLETING: "It is Completing at PIC: its payload has ended and its output is on the way.",
        JobStatus.RESCHEDULED: "It is Rescheduled (why) and waits again when the lease of its last pilot has ended.",
        JobStatus.FAILED: "It has Failed at PIC (why); reschedule it to let it wait again.",
        JobStatus.DONE: "It is Done at PIC.",
        JobStatus.KILLED: "It was Killed (why).",
        JobStatus.DELETED: "It was Deleted (why).",
    }
    said = {
        status: summary(
            Explanation(
                status=status,
                minor_status="why",
                site="PIC",
                checked=CheckedData(files=()) if status is JobStatus.CHECKING else None,
            )
        )
        for status in JobStatus
    }
    assert said == expected
