"""The wire: the code that the server and the programs that it hands out have in common.

Version, protocol and amounts; the HTTP client, and how it reads storage elements, with uploads, delays and checksums;
the reader and the writer of archives.

Agent and client contain this package, and the gateway's program the modules that it uses. So it needs only the standard
library of Python 3.9, and its modules import each other relatively, because in the client it is ``wms_client.wire``; in
the repository the client reaches it by a symbolic link (ADR 68).
"""
