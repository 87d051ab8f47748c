"""The outcome of a JDL text, as kept beside each file of the corpus.

``python -m tests.unit.jobs.jdl_outcomes`` writes the outcomes anew; read the difference before it is committed.
"""

import json
from pathlib import Path
from typing import Final

from wms.jobs.domain import parametric
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.jdl import InvalidJdlError, parse_jdl

CORPUS: Final = Path(__file__).parent / "jdl_corpus"
UPLOADED: Final = "sha256:" + "0" * 64


def outcome_of(text: str) -> dict[str, object]:
    """Return what becomes of a JDL text whose own files are uploaded: the description and warnings, or the errors."""
    try:
        job = parse_jdl(text)
    except InvalidJdlError as error:
        return {"error": {"line": error.line, "column": error.column, "problem": error.problem}}
    outcome: dict[str, object] = {"description": job.description, "warnings": list(job.warnings)}
    if job.group is not None:
        outcome["group"] = job.group
    uploaded = [UPLOADED] if job.description.get("input_sandbox") else []
    try:
        jobs = parametric.parse_all({**job.description, "input_sandbox": uploaded})
    except InvalidDescriptionError as refused:
        return {**outcome, "refused": {field: list(sentences) for field, sentences in refused.errors.items()}}
    if len(jobs) > 1:
        outcome["jobs"] = len(jobs)
        outcome["first_and_last_arguments"] = [jobs[0].arguments, jobs[-1].arguments]
    return outcome


def files() -> list[Path]:
    """Return the files of the corpus."""
    return sorted(CORPUS.glob("*.jdl"))


def main() -> None:
    """Write the outcome of each file beside it."""
    for file in files():
        outcome = outcome_of(file.read_text(encoding="utf-8"))
        text = json.dumps(outcome, indent=2, ensure_ascii=False) + "\n"
        file.with_suffix(".json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
