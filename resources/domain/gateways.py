"""State of a site's gateways: the last advertisement of each, and the check for outdated ones (ADR 30)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from resources.domain.advertised_load import GatewayAdvertisement, Numbers
from resources.domain.advertisements import Advertisement
from wms.kernel.time_texts import to_the_second

#: Gateways of one site at a time.
MOST_GATEWAYS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """The last accepted advertisement of one gateway, and the last one ignored since."""

    #: Empty: the gateway without a name.
    name: str = ""
    numbers: Numbers
    classad: str = ""
    measured_at: datetime
    advertised_at: datetime
    #: Of the last accepted advertisement with a sequence; and its time of measurement.
    sequence: int | None = None
    sequence_at: datetime | None = None
    #: Time and reason of the last advertisement ignored since; None: none was.
    ignored_at: datetime | None = None
    why_ignored: str = ""

    @property
    def ad(self) -> GatewayAdvertisement:
        """Return the advertisement."""
        return GatewayAdvertisement(gateway=self.name, numbers=self.numbers, classad=self.classad)

    def holds(self, *, now: datetime, validity: timedelta) -> bool:
        """Return whether the advertisement is still valid."""
        return self.measured_at + validity > now

    def last_sequence(self, *, now: datetime, validity: timedelta) -> tuple[int, datetime] | None:
        """Return the sequence that the next one must exceed, and when this ends; None: there is no bound.

        The bound ends when its advertisement expires, so that no gateway is locked out for ever.
        """
        if self.sequence is None or self.sequence_at is None or self.sequence_at + validity <= now:
            return None
        return self.sequence, self.sequence_at + validity

    def why_outdated(
        self, advertisement: Advertisement, *, measured_at: datetime, now: datetime, validity: timedelta
    ) -> str:
        """Return, in one sentence with the remedy, why *advertisement* is outdated; empty: it is not."""
        last = self.last_sequence(now=now, validity=validity)
        if advertisement.sequence is not None and last is not None and advertisement.sequence <= last[0]:
            return (
                f"Its sequence {advertisement.sequence} is not above {last[0]}, that of the advertisement measured at "
                f"{to_the_second(self.sequence_at)}; send a higher one, or none, or wait until that one is "
                f"forgotten at {to_the_second(last[1])}."
            )
        if measured_at < self.measured_at:
            return (
                f"It was measured at {to_the_second(measured_at)}, before the last one, measured at "
                f"{to_the_second(self.measured_at)}; measure again."
            )
        return ""

    def after(self, advertisement: Advertisement, *, measured_at: datetime, now: datetime) -> "GatewayState":
        """Return the state after an accepted advertisement."""
        has_sequence = advertisement.sequence is not None
        return GatewayState(
            name=self.name,
            numbers=advertisement.numbers,
            classad=advertisement.classad,
            measured_at=measured_at,
            advertised_at=now,
            sequence=advertisement.sequence if has_sequence else self.sequence,
            sequence_at=measured_at if has_sequence else self.sequence_at,
        )

    def ignoring(self, why: str, *, now: datetime) -> "GatewayState":
        """Return the state after an advertisement that was ignored."""
        return replace(self, ignored_at=now, why_ignored=why)

    def as_record(self) -> dict[str, object]:
        """Return the state as a JSON value."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def gateway_states(records: Sequence[Mapping[str, object]]) -> Sequence[GatewayState]:
    """Return the states stored by ``as_record``."""
    return msgspec.convert(records, list[GatewayState])
