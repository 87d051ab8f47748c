"""Columns of lists that show a value with its unit."""

from collections.abc import Callable

from django.contrib import admin
from django.db.models import Model


def with_unit(name: str, words: Callable[[float], str], *, description: str) -> Callable[[Model], str]:
    """Return a column that shows the value of the column *name* in *words*, and orders by it; "–" for none."""

    @admin.display(description=description, ordering=name)
    def shown(row: Model) -> str:
        value = getattr(row, name)
        return "–" if value is None else words(value)

    shown.__name__ = name
    return shown
