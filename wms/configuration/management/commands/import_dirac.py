"""`manage.py import_dirac FILE`: turn a configuration of DIRAC into a configuration file, with a report."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from wms.configuration.dirac.cfg import MAX_BYTES
from wms.configuration.dirac.convert import NotDiracError, convert
from wms.configuration.problems import ConfigurationError
from wms.configuration.schema import check


class Command(BaseCommand):
    requires_system_checks = ()  # needs neither the database nor its secrets
    help = "Print DIRAC's configuration as a configuration file, and a report on each option; change nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="CFG; later files count before earlier")
        parser.add_argument("--vo", default="", help="the VO of groups that name none")
        parser.add_argument("--setup", default="", help="setup of the VOs; default: that of the files, else Production")
        parser.add_argument("--output", type=Path, help="new file for the configuration; default: standard output")
        parser.add_argument("--report", type=Path, help="new file for the report; default: standard error")

    def handle(
        self, *, files: list[Path], vo: str, setup: str, output: Path | None, report: Path | None, **_options: object
    ) -> None:
        try:
            text, about = convert({str(file): _read(file) for file in files}, setup=setup, vo=vo)
        except NotDiracError as error:
            raise CommandError(f"{error} Nothing was written.") from error
        lines = "\n".join(about.lines()) + "\n"
        if text:
            _check(text)
        _create({path: content for path, content in ((report, lines), (output, text)) if path and content})
        if report is None:
            self.stderr.write(lines, ending="")
        if not text:
            raise CommandError("Nothing of it can be taken, so no configuration was written; the report says why.")
        if output is None:
            self.stdout.write(text, ending="")
        self.stderr.write(f"Next: wms-server configure {output or 'FILE'} --dry-run")


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error


def _check(text: str) -> None:
    """Check that `configure` would accept the text, as far as that can be said without the database."""
    try:
        check(text.encode(), environ={})
    except ConfigurationError as error:
        raise CommandError(
            f"The configuration made of it is not valid; nothing was written.\n{error.detail}"
        ) from error


def _create(contents: dict[Path, str]) -> None:
    """Write new files, all or none."""
    created: list[Path] = []
    try:
        for path, content in contents.items():
            with path.open("x", encoding="utf-8") as stream:
                created.append(path)
                stream.write(content)
    except OSError as error:
        for each in created:
            each.unlink(missing_ok=True)
        raise CommandError(f"{path} cannot be written: {error.strerror}. Nothing was written.") from error
