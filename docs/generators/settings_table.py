"""The table of settings in docs/settings.md, made from the comments of the settings module."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from docs.generators.markdown import table

SECTION = re.compile(r"# -+ (?P<title>.+?) -+$")
#: Defaults that are not values, as a reader of the page knows them.
_IN_WORDS = {
    "": "empty",
    "INSECURE_SECRET_KEY": "a public one, which production refuses",
    "not WMS_EMBEDDED": "true, unless `WMS_EMBEDDED` is",
    "str(_WORK_DIR / 'var')": "`var` in the current directory, or in the clone",
    "str(WMS_DATA_DIR / 'sandboxes')": "`sandboxes` in `WMS_DATA_DIR`",
    "None if WMS_EMBEDDED else str(WMS_DATA_DIR / 'static')": "`static` in `WMS_DATA_DIR`; none if embedded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One environment variable as the settings module reads it.

    Args:
        default: as written in the environment, or the expression that computes it.
        meaning: the comment above it; empty if there is none.
        section: the heading above it.
    """

    name: str
    kind: str
    default: str
    meaning: str
    section: str


def settings_in(source: str) -> list[Setting]:
    """Return the environment variables that *source*, a settings module, reads through ``env``, in order."""
    lines = source.splitlines()
    return [
        Setting(
            name=name.value,
            kind=call.func.attr,
            default=_default_of(call),
            meaning=_comment_above(lines, call.lineno),
            section=_section_above(lines, call.lineno),
        )
        for call, name in _reads(ast.parse(source))
        if isinstance(call.func, ast.Attribute) and isinstance(name.value, str)
    ]


def tables_of(settings: list[Setting]) -> str:
    """Return a Markdown table for each section of *settings*."""
    parts = []
    for section in dict.fromkeys(setting.section for setting in settings):
        rows = [
            [f"`{setting.name}`", setting.kind, _IN_WORDS.get(setting.default, f"`{setting.default}`"), setting.meaning]
            for setting in settings
            if setting.section == section
        ]
        parts.append(f"## {section}\n\n{table(['variable', 'kind', 'default', 'meaning'], rows)}")
    return "\n\n".join(parts)


def _reads(module: ast.Module) -> Iterator[tuple[ast.Call, ast.Constant]]:
    """Yield every call ``env.kind("WMS_…")`` with its first argument, in the order of the lines."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        of_env = (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "env"
        )
        if of_env and call.args and isinstance(call.args[0], ast.Constant):
            yield call, call.args[0]


def _default_of(call: ast.Call) -> str:
    default = next((keyword.value for keyword in call.keywords if keyword.arg == "default"), None)
    if default is None:
        return "none: it must be set"
    try:
        value: object = ast.literal_eval(default)
    except ValueError:
        product = _product(default)
        return ast.unparse(default) if product is None else str(product)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _product(expression: ast.expr) -> int | None:
    """Return the value of ``30 * 24 * 3600``, or None if the expression is not of that form."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, int):
        return expression.value
    if not isinstance(expression, ast.BinOp) or not isinstance(expression.op, ast.Mult):
        return None
    left, right = _product(expression.left), _product(expression.right)
    return None if left is None or right is None else left * right


def _comment_above(lines: list[str], number: int) -> str:
    """Return the block of comments that ends on the line before line *number* (counted from 1)."""
    block: list[str] = []
    for line in reversed(lines[: number - 1]):
        text = line.strip()
        if not text.startswith("#") or SECTION.match(text):
            break
        block.insert(0, text.lstrip("#: "))
    return " ".join(block)


def _section_above(lines: list[str], number: int) -> str:
    titles = [match["title"] for line in lines[:number] if (match := SECTION.match(line))]
    return titles[-1] if titles else "General"
