"""Storage credentials of leases: the only place that decides what a pilot is given to open a storage element with.

A pilot is given the credential that the storage element has for everybody, and that only where an operator allows it
(``credential_for_pilots``): whoever can read it on a worker node may read and write whatever it opens. Tokens made for
one lease, for its files and for a short time, would be made here.
"""

import logging
from collections.abc import Iterable

from resources.models import StorageElement
from wms.kernel.secrets import UndecipherableError, decrypt

logger = logging.getLogger(__name__)


def credentials_of_lease(names: Iterable[str], *, vo_id: int) -> dict[str, str]:
    """Return {storage element: bearer token} of those of the elements for which the lease is given one.

    Args:
        names: of the storage elements that the lease names.
        vo_id: of the leased job; an element that does not serve it gives nothing.
    """
    elements = StorageElement.objects.serving(vo_id).filter(name__in=list(names), credential_for_pilots=True)
    found = {}
    for element in elements.exclude(credential_encrypted=b"").order_by("name"):
        try:
            found[element.name] = decrypt(element.credential_encrypted)
        except UndecipherableError:
            logger.exception("storage_element.credential_unreadable", extra={"storage_element": element.name})
    return found
