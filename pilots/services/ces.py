"""The backend of a computing element: made for each round, of the type that the setting WMS_BACKENDS names."""

from collections.abc import Mapping

from django.conf import settings
from django.utils.module_loading import import_string

from pilots.backends.interface import Backend, BackendError, CEDescription
from pilots.domain.accounts import flaw_of_accounts, of_backend
from resources.domain.words import Identity
from resources.models import ComputingElement


def backend_of(ce: ComputingElement) -> Backend:
    """Return the backend of a CE (with its site).

    Raises:
        BackendError: its type, or an option of it, is unknown or wrong.
    """
    return _made(ce.site.name, ce.name, ce.type, ce.options, ce.identity)


def flaw_of_options(site: str, ce: str, type_: str, options: Mapping[str, object], identity: str) -> str | None:
    """Return what is wrong with the options of a CE, in one sentence; None: nothing that can be seen from here."""
    try:
        _made(site, ce, type_, options, identity)
    except BackendError as error:
        return str(error)
    return None


def _made(site: str, ce: str, type_: str, options: Mapping[str, object], identity: str) -> Backend:
    if flaw := flaw_of_accounts(options, sudo=identity == Identity.SUDO):
        raise BackendError(flaw)
    if type_ not in settings.WMS_BACKENDS:
        raise BackendError(f"No pilots are sent to CEs of type {type_}; there are: {', '.join(settings.WMS_BACKENDS)}.")
    made: Backend = import_string(settings.WMS_BACKENDS[type_])(
        CEDescription(
            site=site,
            ce=ce,
            options=of_backend(options),
            directory=settings.WMS_DATA_DIR / "pilots" / site / ce,
            server_url=settings.WMS_SERVER_URL,
        )
    )
    return made
