"""The sentences about queues that jobs fit, and of facts."""

from matching.domain.facts import Change, WaitReason, fact, in_words
from matching.domain.fits import Fit, fit_in_words
from tests.factories import NOW

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
