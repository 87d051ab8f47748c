"""The client of the REST interface: the command ``wms`` and the Python library; it needs only the standard library.

Installed it is the package ``wms_client``; in the repository, ``wms.client``. Its modules import each other relatively,
and run with Python 3.9 (``docs/adr/0067-the-client-is-a-distribution-of-its-own.md``).
"""

from .version import __version__

__all__ = ["__version__"]
