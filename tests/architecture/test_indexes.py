"""Every index that a model declares is named by the code of a query that uses it: each costs every write of its row."""

import re

from django.apps import apps

from tests.architecture.test_constraints import PACKAGES, ROOT

#: Used when a row is deleted to which others refer: by no query of ours.
SERVE_DELETIONS = {"pilot_made_for_site", "pilot_made_for_ce"}


def declared() -> set[str]:
    """Return the names of the indexes of the project's own models; keys and constraints are used by the database."""
    models = (model for model in apps.get_models() if model.__module__.split(".")[0] in PACKAGES)
    return {index.name for model in models for index in model._meta.indexes}


def named() -> set[str]:
    """Return the words of all comments ``Uses index: …`` of the program."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in {".py", ".sql"})
    comments = (comment for path in files for comment in re.findall(r"Uses index(?:es)?: (.*)", path.read_text()))
    return {word for comment in comments for word in re.findall(r"\w+", comment)}


def test_each_index_is_named_by_a_query_that_uses_it() -> None:
    unused = declared() - named() - SERVE_DELETIONS
    assert not unused, f"no query has a comment `Uses index: …` with {', '.join(sorted(unused))}: write one, or drop it"


def test_the_indexes_are_found() -> None:
    assert {"job_of_its_kind", "pilot_latest_on_host", "content_since"} <= declared()
    assert declared() >= SERVE_DELETIONS
