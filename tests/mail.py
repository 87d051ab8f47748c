"""A real mail server on this machine, which keeps what it accepts."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as modern
from typing import Final

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

OK: Final = "250 OK"


class MailServer:
    """The messages that were accepted, and what is answered to the next ones."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        #: Addresses to which mail was accepted, in order.
        self.addresses: list[str] = []
        self.answer_to_address = OK
        self.answer_to_message = OK
        self.port = 0

    async def handle_RCPT(  # noqa: N802 - named after the command
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept or refuse an address."""
        if self.answer_to_address == OK:
            envelope.rcpt_tos.append(address)
        return self.answer_to_address

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - likewise
        """Accept or refuse a message."""
        if self.answer_to_message == OK:
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=modern)
            assert isinstance(message, EmailMessage)
            self.messages.append(message)
            self.addresses += envelope.rcpt_tos
        return self.answer_to_message


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """Run a mail server on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = MailServer()
    server.port = port
    controller = Controller(server, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield server
    finally:
        controller.stop()
