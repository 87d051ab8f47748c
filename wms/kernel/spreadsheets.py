"""Cells of CSV files that people open with spreadsheets."""

from typing import Final

#: Beginnings of a cell that spreadsheets take for a formula.
_OF_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def cell(text: str) -> str:
    """Return *text*, with ``'`` before it if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_OF_FORMULAS) else text
