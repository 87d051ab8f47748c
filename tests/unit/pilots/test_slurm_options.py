"""Options of a CE of type slurm: refusals, and the rewriting of slots."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pilots.backends.interface import BackendError, BatchRequest, CEDescription
from pilots.backends.slurm import SlurmBackend
from pilots.backends.slurm_options import parse_options


def constraint(slot: Mapping[str, Any], **options: object) -> str:
    arguments = parse_options(options).arguments_for(BatchRequest(queue="main", **slot))
    (found,) = [one.partition("=")[2] for one in arguments if one.startswith("--constraint=")] or [""]
    return found


def test_a_ce_without_options_has_defaults() -> None:
    options = parse_options({})
    assert (options.directory, options.max_pending, options.submit_arguments) == ("wms-pilots", 10, ())
    assert options.arguments_for(BatchRequest(queue="main")) == ["--ntasks=1", "--partition=main", "--cpus-per-task=1"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"partitoin": "main"}, 'has no option partitoin;.* Did you mean "partition"'),
        ({"hots": "ce01.cern.ch"}, 'has no option hots;.* Did you mean "host"'),
        ({"partition": 5}, "option partition must be a text"),
        ({"directory": "/data/%u"}, "option directory must not contain %"),
        ({"max_pending": -1}, "option max_pending must be a whole number, at least 0"),
        ({"max_pending": True}, "option max_pending must be a whole number"),
        ({"features": ["el9"]}, "option features must be a record"),
        ({"features": {"x86_64-el9": ""}}, "feature of x86_64-el9 must be a text"),
        ({"features": {"x86_64-el9": None}}, "feature of x86_64-el9 must be a text"),
        ({"submit_arguments": "--nice=5"}, "option submit_arguments must be a list"),
        ({"submit_arguments": [5]}, "option submit_arguments must be a list"),
    ],
)
def test_a_wrong_option_is_refused_before_contacting_the_ce(
    tmp_path: Path, options: Mapping[str, object], sentence: str
) -> None:
    with pytest.raises(BackendError, match=sentence):
        SlurmBackend(
            CEDescription(site="CERN", ce="ce01", options=options, directory=tmp_path, server_url="http://localhost:1")
        )


@pytest.mark.parametrize(
    "argument",
    [
        "--job-name=x",
        "--output=x",
        "--wrap=true",
        "--array=0-9",
        "--hold",
        "--clusters=other",
        "--job=x",
        "--ou=x",
        "--no-req",
    ],
)
def test_submit_arguments_that_break_pilots_are_refused(argument: str) -> None:
    with pytest.raises(BackendError, match=f"{argument} is not allowed: the server sets --"):
        parse_options({"submit_arguments": ["--nice=5", argument]})


def test_submit_arguments_set_elsewhere_are_refused() -> None:
    with pytest.raises(BackendError, match=r"the server sets --time; use the queue's wall_time_s instead\."):
        parse_options({"submit_arguments": ["--time=5"]})


@pytest.mark.parametrize("argument", ["-A", "physics", "--", "--=x", "", "-J=x"])
def test_a_submit_argument_is_one_long_option(argument: str) -> None:
    with pytest.raises(BackendError, match="must be one text such as --name=value"):
        parse_options({"submit_arguments": [argument]})


def test_submit_arguments_come_first_so_that_they_overrule_nothing() -> None:
    arguments = parse_options({"submit_arguments": ["--nice=5", "--exclusive"]}).arguments_for(
        BatchRequest(queue="main")
    )
    assert arguments[:2] == ["--nice=5", "--exclusive"]


def test_minutes_are_rounded_up_and_nothing_is_added() -> None:
    times = [
        [
            one
            for one in parse_options({}).arguments_for(BatchRequest(queue="q", wall_time_s=s))
            if one.startswith("--time")
        ]
        for s in (1, 60, 61, 86400)
    ]
    assert times == [["--time=1"], ["--time=1"], ["--time=2"], ["--time=1440"]]


def test_platforms_are_alternatives_and_tags_are_all_asked_for() -> None:
    features = {"el9": "rocky9", "alma9": "rocky9", "el8": "centos8", "ib": "infiniband", "fat": "bigmem"}
    assert constraint({}, features=features) == ""
    assert constraint({"platforms": ("el9", "alma9")}, features=features) == "rocky9"
    assert constraint({"platforms": ("el9", "el8")}, features=features) == "rocky9|centos8"
    assert constraint({"platforms": ("el9", "el8"), "tags": ("ib", "fat", "x")}, features=features) == (
        "(rocky9|centos8)&infiniband&bigmem"
    )
    assert constraint({"tags": ("ib",)}, constraint="a|b", features=features) == "(a|b)&infiniband"
    assert constraint({"tags": ("ib",)}, constraint="[r1|r2]", features=features) == "[r1|r2]&infiniband"
    assert constraint({"tags": ("x",)}, constraint="a|b", features=features) == "a|b"
