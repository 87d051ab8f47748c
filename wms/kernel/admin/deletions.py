"""Lists that the admin shows before a deletion: rows deleted, and rows that prevent it, without internal records."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.utils.text import capfirst

#: Number of rows preventing a deletion that are named; the rest are counted.
MOST_PROTECTING = 20


def names_without_a_page(site: admin.AdminSite) -> Mapping[str, str]:
    """Return {name: plural} of the models without a page or a table on one: the system's internal records.

    A name that also belongs to a model with a page is left out (Django's groups share theirs with ours).
    """
    pages = {model: site.get_model_admin(model) for model in apps.get_models() if site.is_registered(model)}
    seen = pages.keys() | {inline.model for page in pages.values() for inline in page.inlines}
    names = {str(model._meta.verbose_name) for model in seen}
    hidden = [model._meta for model in apps.get_models(include_auto_created=True) if model not in seen]
    return {str(meta.verbose_name): str(meta.verbose_name_plural) for meta in hidden if meta.verbose_name not in names}


def without_kinds(rows: Sequence[Any], kinds: tuple[str, ...]) -> list[Any]:
    """Return Django's nested lists of deleted rows, without the lines that begin with one of *kinds*."""
    inner = [without_kinds(row, kinds) if isinstance(row, list) else row for row in rows]
    return [row for row in inner if row and not (isinstance(row, str) and str(row).startswith(kinds))]


def named_rows(protected: Sequence[str], hidden: Mapping[str, str]) -> list[str]:
    """Return the first rows that prevent a deletion; if only internal records do, their counts.

    Args:
        protected: one line for each row, the name of its kind first.
        hidden: from ``names_without_a_page``.
    """
    plural_of = {capfirst(name): capfirst(plural) for name, plural in hidden.items()}
    kinds = [str(row).partition(": ")[0] for row in protected]
    seen = [row for row, kind in zip(protected, kinds, strict=True) if kind not in plural_of]
    if not seen:
        return [f"{plural_of[kind]}: {number:,}" for kind, number in Counter(kinds).items()]
    more = len(seen) - MOST_PROTECTING
    return [*seen[:MOST_PROTECTING], *([f"and {more:,} more"] if more > 0 else [])]
