"""The sites of a job according to its input data, and the directories to which it may write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.files import is_below, lfn_problem, sites_with_all, url_of, vo_of
from wms.jobs.domain.data import home_of, is_own, narrowed, output_directory

SITES = st.frozensets(st.sampled_from(["CERN", "RAL", "PIC"]))


@given(SITES, SITES, st.none() | SITES)
def test_candidate_sites_are_wanted_not_banned_and_hold_the_files(
    sites: frozenset[str], banned: frozenset[str], holding: frozenset[str] | None
) -> None:
    found = narrowed(sites, banned_sites=banned, holding=None if holding is None else sorted(holding))
    if holding is None:
        assert found is not None
        assert frozenset(found) == sites
        return
    expected = (holding & sites if sites else holding) - banned
    # Nowhere is never told as an empty list, which would mean anywhere.
    assert (None if found is None else frozenset(found)) == (expected or None)


@given(
    st.lists(st.sampled_from("abcd"), min_size=1),
    st.dictionaries(st.sampled_from("abc"), st.frozensets(st.integers(1, 4))),
)
def test_a_site_holds_all_files_exactly_when_it_holds_each(
    files: list[str], holders: dict[str, frozenset[int]]
) -> None:
    sites_of = {1: frozenset({"CERN"}), 2: frozenset({"CERN", "RAL"}), 3: frozenset({"PIC"})}
    found = sites_with_all(files, holders=holders, sites_of=sites_of)
    for site in ("CERN", "RAL", "PIC"):
        has_each = all(any(site in sites_of.get(element, ()) for element in holders.get(file, ())) for file in files)
        assert (site in found) == has_each
    assert list(found) == sorted(found)


@pytest.mark.parametrize("lfn", ["/a", "/lhcb/x y/ü.root", "/" + "x" * 254])
def test_absolute_paths_of_files_are_logical_names(lfn: str) -> None:
    assert lfn_problem(lfn) == ""


@pytest.mark.parametrize("lfn", ["", "/", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a\nb", "/" + "x" * 255])
def test_other_texts_are_no_logical_names(lfn: str) -> None:
    assert lfn_problem(lfn)


def test_a_file_lies_below_the_url_of_its_storage_element_with_its_whole_name() -> None:
    assert url_of("https://se.example.org/data/", "/lhcb/a b?#") == "https://se.example.org/data/lhcb/a%20b%3F%23"
    assert vo_of("/lhcb/a") == "lhcb"


def test_a_directory_is_not_above_one_whose_name_begins_alike() -> None:
    assert is_below("/lhcb/user/a/alice/x", "/lhcb/user/a/alice/")
    assert not is_below("/lhcb/user/a/alice2/x", "/lhcb/user/a/alice")
    assert not is_below("/lhcb/user/a/alice", "/lhcb/user/a/alice")


def test_without_a_path_each_job_has_a_directory_of_its_own() -> None:
    assert home_of("alice", vo="lhcb") == "/lhcb/user/a/alice"
    assert output_directory(None, vo="lhcb", username="alice", job_id=7) == "/lhcb/user/a/alice/7"
    assert output_directory("/lhcb/prod", vo="lhcb", username="alice", job_id=7) == "/lhcb/prod"
    assert is_own("/lhcb/user/a/alice", directories=["/lhcb/user/a/alice"])
