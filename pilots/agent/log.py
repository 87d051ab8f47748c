"""Events to standard error, one line each: ``2026-06-01T12:00:00Z payload.started job=7 pid=4711``."""

from __future__ import annotations

import json
import re
import sys
import time

_PLAIN = re.compile(r"[\w./:+@%-]+\Z", re.ASCII)


def event(name: str, **fields: object) -> None:
    """Write one line; a value with blanks or control characters is written as a JSON string.

    Tokens and what users wrote to their files never belong here.
    """
    words = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), name]
    words += [f"{key}={_written(value)}" for key, value in fields.items() if value is not None]
    try:
        sys.stderr.write(" ".join(words) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody listens any more; the jobs matter more than the log


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return text if _PLAIN.match(text) else json.dumps(text)
