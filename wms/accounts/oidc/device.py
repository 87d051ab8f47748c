"""The device flow (RFC 8628) between this server and a provider, for clients without a browser."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from wms.accounts.oidc import connection
from wms.accounts.oidc.configuration import OIDCProvider
from wms.accounts.oidc.id_tokens import claims_with_userinfo
from wms.accounts.oidc.identity import ProviderIdentity, identity_of
from wms.kernel.errors import ConflictError, UnauthenticatedError
from wms.kernel.secrets import UndecipherableError, decrypt, encrypt

_ENDPOINT: Final = "device_authorization_endpoint"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
#: Seconds between two questions, unless the provider says otherwise (RFC 8628, §3.2).
DEFAULT_INTERVAL_S: Final = 5
#: Longest time that a person has, whatever the provider says.
LONGEST: Final = timedelta(minutes=30)


class NoDeviceFlowError(ConflictError):
    """The provider offers no device flow."""

    code = "no_device_flow"


class DeviceLogInOverError(UnauthenticatedError):
    """The person has refused the log-in at the provider, or its time is over, or it was used already."""

    code = "device_log_in_over"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLogIn:
    """A log-in that a person confirms in a browser anywhere.

    Args:
        provider_id: where.
        device_code: the provider's name of it; a secret of this server.
        attempt: its row of failed log-ins.
        expires_at: its end.
    """

    provider_id: str
    device_code: str
    attempt: int
    expires_at: datetime

    def handle(self) -> str:
        """Return the text by which the client names it: encrypted, so that the client cannot use the code itself."""
        return sealed("device", [self.provider_id, self.device_code, self.attempt], expires_at=self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """The page and the code for the person.

    Args:
        url: page of the provider to open.
        whole_url: the same with the code; empty: the provider has none.
        user_code: to type there.
        interval_s: seconds between two questions of the client.
    """

    url: str
    whole_url: str
    user_code: str
    interval_s: int


def begin(provider: OIDCProvider, *, attempt: int, now: datetime) -> tuple[DeviceLogIn, Instructions]:
    """Begin a log-in at *provider*.

    Args:
        provider: where.
        attempt: row of failed log-ins.
        now: its beginning.

    Raises:
        NoDeviceFlowError: the provider offers none.
        ProviderFailedError: it does not answer.
    """
    if not connection.endpoint(provider, _ENDPOINT):
        sentence = f"{provider.name} offers no device flow; log in to the portal and make a token there."
        raise NoDeviceFlowError(sentence)
    status, answer = connection.post(provider, _ENDPOINT, {"scope": " ".join(provider.scopes)})
    urls = [answer.get("verification_uri", ""), answer.get("verification_uri_complete") or ""]
    is_whole = all(isinstance(answer.get(name), str) for name in ("device_code", "user_code", "verification_uri"))
    if status != HTTPStatus.OK or not is_whole or not all(url == "" or _is_address(url) for url in urls):
        sentence = f"{provider.name} refuses to begin a log-in by device flow; log in to the portal instead."
        raise NoDeviceFlowError(sentence)
    lifetime = min(timedelta(seconds=_number(answer.get("expires_in"), 600)), LONGEST)
    log_in = DeviceLogIn(
        provider_id=provider.id, device_code=str(answer["device_code"]), attempt=attempt, expires_at=now + lifetime
    )
    return log_in, Instructions(
        url=str(urls[0]),
        whole_url=str(urls[1]),
        user_code=str(answer["user_code"]),
        interval_s=_number(answer.get("interval"), DEFAULT_INTERVAL_S),
    )


def ask(provider: OIDCProvider, log_in: DeviceLogIn) -> ProviderIdentity | str:
    """Return the person who has confirmed the log-in; else the provider's "authorization_pending" or "slow_down".

    Raises:
        DeviceLogInOverError: it was refused, or has expired.
        ProviderTokenRefusedError: the provider's ID token is not valid.
        ProviderFailedError: it does not answer.
    """
    fields = {"grant_type": _GRANT, "device_code": log_in.device_code}
    status, answer = connection.post(provider, "token_endpoint", fields)
    if status == HTTPStatus.OK:
        return identity_of(provider, claims_with_userinfo(provider, answer, nonce=None))
    match answer.get("error"):
        case "authorization_pending" | "slow_down" as waiting:
            return str(waiting)
        case "access_denied":
            raise DeviceLogInOverError(f"The log-in was refused at {provider.name}.")
    raise DeviceLogInOverError("The time for this log-in is over, or it was used already; log in again.")


def log_in_of(handle: str, *, now: datetime) -> DeviceLogIn:
    """Return the log-in that the client names.

    Raises:
        DeviceLogInOverError: there is none, or its time is over.
    """
    contents, expires_at = unsealed("device", handle, now=now)
    provider_id, device_code, attempt = contents
    return DeviceLogIn(
        provider_id=str(provider_id), device_code=str(device_code), attempt=int(attempt), expires_at=expires_at
    )


def sealed(kind: str, contents: list[str | int], *, expires_at: datetime) -> str:
    """Return *contents* as a text that only this server reads and makes."""
    return encrypt(json.dumps([kind, expires_at.isoformat(), contents])).decode("ascii")


def unsealed(kind: str, text: str, *, now: datetime) -> tuple[list[str | int], datetime]:
    """Return the contents of a text of ``sealed`` and the end of its validity.

    Raises:
        DeviceLogInOverError: it is of another kind or not ours, or has expired.
    """
    try:
        # NB: other encrypted texts of this server are never such lists.
        found, expires_at, contents = json.loads(decrypt(text.encode()))
        end = datetime.fromisoformat(expires_at)
    except (UndecipherableError, ValueError, TypeError) as error:
        raise DeviceLogInOverError("This is no log-in of this server; log in again.") from error
    if found != kind or end <= now:
        raise DeviceLogInOverError("The time for this log-in is over; log in again.")
    return contents, end


def _is_address(url: object) -> bool:
    return isinstance(url, str) and urlsplit(url).scheme in {"https", "http"} and url.isprintable()


def _number(value: object, default: int) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value <= LONGEST.total_seconds() else default
