"""Shares corrected by the usage of the groups (docs/architecture.md, Priorities; ADR 13)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import fsum, isfinite

#: Age at which usage counts half.
HALF_LIFE = timedelta(days=3)
#: Largest factor by which a share is corrected, up or down.
MAX_CORRECTION = 3.0
MIN_CORRECTION = 1 / MAX_CORRECTION


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedShare:
    """The share of one group with all factors of its correction; dimensionless."""

    #: As configured.
    configured: float
    #: The group's fraction of the configured shares of its VO, 0 to 1.
    expected: float
    #: The group's fraction of the usage of its VO's groups, 0 to 1; None: none of them used anything.
    used: float | None
    #: expected / used; None: the group used nothing.
    ratio: float | None
    #: The ratio, limited to 1/3 to 3; 1 if none of the groups used anything.
    factor: float
    #: The same for all groups of the VO; makes the corrected shares add up to the configured ones.
    normalization: float

    @property
    def corrected(self) -> float:
        """Return the share that is divided over the group's task queues."""
        return self.configured * self.factor * self.normalization

    @property
    def fraction(self) -> float:
        """Return the corrected fraction of the shares of the VO, 0 to 1."""
        return self.expected * self.factor * self.normalization


def correct_shares(shares: Mapping[int, float], *, used_s: Mapping[int, float]) -> dict[int, CorrectedShare]:
    """Return the corrected share of each group of one VO: share × clip(expected/used, 1/3, 3), normalized.

    Args:
        shares: {group id: configured share}, of all groups of the VO; ≥ 0.
        used_s: {group id: processor-seconds, decayed}; ≥ 0; a group that is missing used nothing.

    Returns:
        {group id: share}; the corrected shares add up to the configured ones.
    """
    all_shares, all_used_s = fsum(shares.values()), fsum(used_s.get(group, 0.0) for group in shares)
    expected = {group: share / all_shares if all_shares else 0.0 for group, share in shares.items()}
    used = {group: used_s.get(group, 0.0) / all_used_s if all_used_s else None for group in shares}
    ratio = {group: _ratio(expected[group], used[group]) for group in shares}
    factor = {group: 1.0 if used[group] is None else _clipped(ratio[group]) for group in shares}
    weighted = fsum(share * factor[group] for group, share in shares.items())
    return {
        group: CorrectedShare(
            configured=share,
            expected=expected[group],
            used=used[group],
            ratio=ratio[group],
            factor=factor[group],
            normalization=all_shares / weighted if weighted else 1.0,
        )
        for group, share in shares.items()
    }


def decayed(used_s: float, *, after: timedelta) -> float:
    """Return the rest of *used_s* after this time, ≥ 0."""
    return float(used_s * 0.5 ** (after / HALF_LIFE))


def _ratio(expected: float, used: float | None) -> float | None:
    if not used:
        return None
    ratio = expected / used
    return ratio if isfinite(ratio) else None  # almost nothing was used


def _clipped(ratio: float | None) -> float:
    return MAX_CORRECTION if ratio is None else min(max(ratio, MIN_CORRECTION), MAX_CORRECTION)
