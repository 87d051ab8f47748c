"""Storage credentials of leases: the only place that decides which credentials a pilot gets.

A pilot gets the one credential of the storage element, and only if an operator allows it (``credential_for_pilots``):
whoever can read it on a worker node can read and write everything that it opens. Tokens for the files of one lease and
a short time would be made here.
"""

import logging
from collections.abc import Iterable

from resources.models import StorageElement
from wms.kernel.secrets import UndecipherableError, decrypt

logger = logging.getLogger(__name__)


def credentials_of_lease(names: Iterable[str], *, vo_id: int) -> dict[str, str]:
    """Return {storage element: bearer token} of those elements whose credential the lease gets.

    Args:
        names: of the storage elements that the lease names.
        vo_id: of the leased job; an element that does not serve it is left out.
    """
    elements = StorageElement.objects.serving(vo_id).filter(name__in=list(names), credential_for_pilots=True)
    tokens = {}
    for element in elements.exclude(credential_encrypted=b"").order_by("name"):
        try:
            tokens[element.name] = decrypt(element.credential_encrypted)
        except UndecipherableError:
            logger.exception("storage_element.credential_unreadable", extra={"storage_element": element.name})
    return tokens
