"""Parts of the pictures: texts, boxes and lines of SVG, dark on a white ground, which fits both themes of the site."""

from collections.abc import Sequence
from html import escape
from typing import Final

INK: Final = "#1b2733"
QUIET: Final = "#5b6b7b"
PALE: Final = "#eef2f6"


def text(x: float, y: float, words: str, *, size: int = 14, anchor: str = "start", bold: bool = False) -> str:
    """Return a text; small ones are quiet."""
    weight = ' font-weight="600"' if bold else ""
    color = INK if size >= 14 else QUIET
    look = f'font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}'
    return f'<text x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, *, color: str) -> str:
    """Return a rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}" fill="{color}" '
        f'stroke="{INK}" stroke-width="1"/>'
    )


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a line."""
    return f'<line x1="{x1:.1f}" y1="{y1:g}" x2="{x2:.1f}" y2="{y2:g}" stroke="{INK}" stroke-width="1.2"/>'


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """Return a picture as a file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" role="img">'
    )
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *parts, "</svg>", ""])
