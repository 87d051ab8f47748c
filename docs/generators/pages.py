"""The parts of the pages below docs/ that are made from the code, and the pictures."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from docs.generators import client_commands, configuration_keys, description_fields, dirac_table, priorities, states
from docs.generators.jdl_tables import attributes, words_of_expressions
from docs.generators.markdown import table, with_part
from docs.generators.settings_table import settings_in, tables_of
from pilots.domain import pilot
from wms.client.catalogue import ENTRIES
from wms.jobs.domain import lifecycle
from wms.kernel.counters import COUNTERS
from wms.kernel.rest.error_codes import ERROR_CODES
from wms.operations.exposition import MEANING_OF_MEASURED_AT, MEASURED_AT
from wms.operations.gauges import GAUGES

DOCS: Final = Path(__file__).resolve().parents[1]

StatusT = TypeVar("StatusT", bound=str)


def _settings() -> str:
    source = (DOCS.parent / "wms" / "settings.py").read_text(encoding="utf-8")
    return tables_of(settings_in(source))


def _error_codes() -> str:
    rows = [[f"`{each.code}`", str(int(each.status)), each.meaning, each.remedy] for each in ERROR_CODES.values()]
    return table(["code", "status", "meaning", "what to do"], rows)


def _transitions(transitions: Mapping[StatusT, Collection[StatusT]]) -> str:
    rows = [
        [str(status), ", ".join(follower for follower in transitions if follower in followers) or "–"]
        for status, followers in transitions.items()
    ]
    return table(["status", "statuses that may follow"], rows)


def _metrics() -> str:
    rows = [[f"`{MEASURED_AT}`", "", MEANING_OF_MEASURED_AT]]
    rows += [[f"`{gauge.name}`", ", ".join(gauge.labels), gauge.meaning] for gauge in GAUGES]
    for counter in COUNTERS:
        (family,) = counter.describe()
        suffix = "_total" if family.type == "counter" else "_bucket"
        rows.append([f"`{family.name}{suffix}`", ", ".join(counter._labelnames), family.documentation])  # noqa: SLF001
    return table(["metric", "labels", "meaning"], rows)


#: {page: {name of a part: function that returns its Markdown}}.
PARTS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "architecture.md": {
        "Jobs": lambda: _transitions(lifecycle.TRANSITIONS),
        "Pilots": lambda: _transitions(pilot.TRANSITIONS),
    },
    "configuration.md": {"Keys": configuration_keys.sections},
    "descriptions.md": {"Fields": description_fields.sections},
    "errors.md": {"Error codes": _error_codes},
    "jdl.md": {
        "Attributes": attributes,
        "Words of expressions": words_of_expressions,
        "Differences": dirac_table.differences,
    },
    "monitoring.md": {"Metrics": _metrics},
    "settings.md": {"Settings": _settings},
    "wms.md": {
        "Commands": client_commands.overview,
        "Filters": client_commands.filters,
        **{f"wms {name}": partial(client_commands.command, name) for name in ENTRIES},
    },
}


def documented(page: str, text: str) -> str:
    """Return the text of a page with its parts as the code has them now."""
    for name, content in PARTS[page].items():
        text = with_part(text, of=name, content=content())
    return text


def pictures() -> Mapping[str, str]:
    """Return {file below docs/pictures/: its content}."""
    return states.pictures() | priorities.pictures()


def update(docs: Path) -> list[Path]:
    """Write the pages and pictures below *docs* that are not as the code has them now, and return their paths."""
    files = {docs / "pictures" / name: content for name, content in pictures().items()}
    files |= {docs / name: documented(name, (docs / name).read_text(encoding="utf-8")) for name in PARTS}
    stale = [path for path, content in files.items() if path.read_text(encoding="utf-8") != content]
    for path in stale:
        path.write_text(files[path], encoding="utf-8")
    return stale
