"""`manage.py up`: the whole system in the foreground."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from wms.configuration.document import content_of
from wms.configuration.problems import ConfigurationError
from wms.configuration.schema import check
from wms.kernel.trusted_paths import UntrustedPathError
from wms.stack.directory import hint_for_commands
from wms.stack.errors import StackError
from wms.stack.listening import LOOPBACK, Listener
from wms.stack.services import StackOptions, System, run
from wms.wire.protocol import API_V1

#: Largest TCP port.
MAX_PORT = 65535


class Command(BaseCommand):
    help = "Run the whole system in the foreground, from the database to the directors; Ctrl-C stops all of it."
    # The checks need servers that do not run yet; each child runs them itself.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_options(parser)
        parser.add_argument(
            "--listen",
            default=LOOPBACK,
            metavar="ADDRESS",
            help="an IP address of this machine, or unix:PATH for a proxy on it (default: %(default)s)",
        )
        parser.add_argument(
            "--config", type=Path, metavar="FILE", help="apply this configuration before the web starts"
        )

    def handle(
        self,
        *,
        listen: str,
        port: int,
        data_dir: Path,
        web_workers: int,
        config: Path | None,
        **_options: object,
    ) -> None:
        try:
            listener = Listener.named(listen, port=port)
            _refuse_open_doors(listener)
            if config is not None:
                _check(config)
            options = StackOptions(
                project=settings.BASE_DIR,
                data=data_dir,
                listener=listener,
                web_workers=web_workers,
                configuration=config,
                # Also with embedded servers, as other machines connect.
                defaults={"WMS_HTTPS": "true"} if listener.is_open else {},
            )
            run(options, greeting=_greeting)
        except StackError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            return  # before the supervisor handled signals: nothing was started yet


def _refuse_open_doors(listener: Listener) -> None:
    """Refuse a listener that other machines reach without a proxy that speaks TLS.

    Clients that connect there directly, in clear, are refused or redirected (wms.kernel.middleware.TrustedTransport).
    """
    if listener.is_open and not (settings.WMS_HTTPS and settings.WMS_TRUSTED_PROXIES):
        raise CommandError(
            f"{listener.host} is reached from other machines, in clear: name the proxies that speak TLS before it in "
            "WMS_TRUSTED_PROXIES, with WMS_HTTPS=true, or listen at 127.0.0.1 or unix:PATH."
        )


def _check(configuration: Path) -> None:
    """Refuse a configuration file that is not valid, whatever the database contains, before anything is started."""
    try:
        check(content_of(configuration), environ=os.environ)
    except UntrustedPathError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"The configuration file {configuration} cannot be read: {error.strerror}.") from error
    except ConfigurationError as error:
        raise CommandError(error.about(configuration)) from error


def _greeting(system: System) -> str:
    address, command = system.address, command_of(sys.argv[0])
    return (
        f"\nThe system is up at {address} (API: {address.rstrip('/')}{API_V1}docs/, administration: {address}admin/).\n"
        f"Its data are in {system.directory.path}. Ctrl-C stops it.\n"
        f"{_in_other_terminals(system)}"
        f"Next, in a second terminal: `{command} configure FILE` with your sites, groups and users, or\n"
        f"`{command} createsuperuser`; then `{command} token USER` for a first request.\n"
    )


def command_of(program: str) -> str:
    """Return what a user types before the name of a command.

    Args:
        program: path of the program that runs, such as that of `wms-server` or of manage.py.
    """
    name = Path(program).name
    return {"manage.py": "uv run manage.py", "__main__.py": "python -m wms"}.get(name, name)


def _in_other_terminals(system: System) -> str:
    hint = hint_for_commands(system.directory.path, default=settings.FOUND_DATA_DIR)
    return f"{hint}\n" if hint else ""


def add_options(parser: ArgumentParser) -> None:
    """Add the options shared by `up`, `demo` and similar commands."""
    parser.add_argument("--port", type=port, default=8000, help="where the web server listens (default: 8000)")
    parser.add_argument(
        "--data-dir", type=Path, default=settings.WMS_DATA_DIR, metavar="D", help="(default: %(default)s)"
    )
    parser.add_argument("--web-workers", type=positive, default=2, metavar="N", help="web processes (default: 2)")


def port(text: str) -> int:
    """Return the number of a port."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_PORT):
        raise ArgumentTypeError(f"{text!r} is not a port; give a number from 1 to {MAX_PORT}.")
    return int(text)


def positive(text: str) -> int:
    """Return a number above 0."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a number above 0; give one such as 2.")
    return int(text)
