"""Storage elements for tests: an HTTPS server on loopback with a certificate of its own."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.serving import LoopbackServer


class StorageServer(LoopbackServer):
    """``with StorageServer(directory) as storage``: a server that keeps files in memory.

    Attributes:
        files: {path: content}.
        seen: (verb, path, token) of each request.
        token: required of all requests; empty: none is required.
        directories: existing ones, if files need one, as with WebDAV; None: they do not.
        answers: statuses of the next requests, or addresses to redirect to.
        cuts: number of bytes really sent of each of the next files, while all are announced.
        refused: paths that are never written.
        moves: whether it knows MOVE.
        honours: whether it obeys ``Overwrite: F`` and ``If-None-Match: *``.
        foreign: destinations that begin so are another server's.
        tells_sizes: whether it tells the size of a file that is not fetched.
        cuts_off: whether it stores only the first bytes of a file, and says nothing.
        losing: verbs whose next request is carried out and not answered.
        certificate: to be trusted.
    """

    scheme = "https"

    def __init__(self, directory: Path, *, token: str = "", names: Sequence[str] = ()) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] | None = None
        self.seen: list[tuple[str, str, str]] = []
        self.answers: list[int | str] = []
        self.cuts: list[int] = []
        self.refused: set[str] = set()
        self.moves = self.honours = self.tells_sizes = True
        self.cuts_off = False
        self.foreign = ""
        self.losing: list[str] = []
        self.token = token
        self.certificate = directory / "storage.pem"
        write_certificate(self.certificate, *names)
        super().__init__(type("_HandlerOfStorage", (_Handler,), {"storage": self}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)


class _Handler(BaseHTTPRequestHandler):
    storage: StorageServer

    def do_GET(self) -> None:
        if self._may():
            content = self.storage.files.get(self.path)
            self._answer(404 if content is None else 200, content or b"")

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self._may():
            if self.path in self.storage.refused or not self._has_directory(self.path):
                self._answer(403 if self.path in self.storage.refused else 409, b"")
                return
            if self.headers["If-None-Match"] and self.storage.honours and self.path in self.storage.files:
                self._answer(412, b"")
                return
            self.storage.files[self.path] = content[:2] if self.storage.cuts_off else content
            self._answer(201, b"")

    def do_MOVE(self) -> None:
        if not self._may():
            return
        target = urlsplit(self.headers["Destination"]).path
        exists = target in self.storage.files
        if not self.storage.moves:
            self._answer(405, b"")
        elif self.storage.foreign and self.headers["Destination"].startswith(self.storage.foreign):
            self._answer(502, b"")
        elif target in self.storage.refused or self.path not in self.storage.files:
            self._answer(403 if target in self.storage.refused else 404, b"")
        elif exists and self.headers["Overwrite"] == "F" and self.storage.honours:
            self._answer(412, b"")
        else:
            self.storage.files[target] = self.storage.files.pop(self.path)
            self._answer(204 if exists else 201, b"")

    def do_DELETE(self) -> None:
        if self._may():
            self._answer(404 if self.storage.files.pop(self.path, None) is None else 204, b"")

    def do_MKCOL(self) -> None:
        directory = self.path.rstrip("/")
        if not self._may():
            return
        if self.storage.directories is None or directory in self.storage.directories:
            self._answer(405, b"")
            return
        if not self._has_directory(directory):
            self._answer(409, b"")
            return
        self.storage.directories.add(directory)
        self._answer(201, b"")

    def _has_directory(self, path: str) -> bool:
        return self.storage.directories is None or path.rpartition("/")[0] in self.storage.directories

    def _may(self) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.storage.seen.append((self.command, self.path, token))
        if self.storage.answers:
            self._scripted(self.storage.answers.pop(0))
            return False
        if self.storage.token not in {"", token}:
            self._answer(401, b"")
            return False
        return True

    def _scripted(self, answer: int | str) -> None:
        if isinstance(answer, int):
            self._answer(answer, b"")
            return
        self.send_response(307)
        self.send_header("Location", answer)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, status: int, content: bytes) -> None:
        if self.command in self.storage.losing:
            self.storage.losing.remove(self.command)
            self.close_connection = True
            return
        self.send_response(status)
        if self.command != "HEAD" or self.storage.tells_sizes:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: self.storage.cuts.pop(0)] if content and self.storage.cuts else content)

    def log_message(self, *_: object) -> None:
        pass


def write_certificate(file: Path, *names: str) -> None:
    """Write a key and a self-signed certificate for 127.0.0.1 and the hosts of these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"storage of a test {uuid4()}")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), *map(x509.DNSName, names)]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    file.chmod(0o600)
