"""One job of a Monte Carlo: `pi.py SEED POINTS` estimates π by the share of random points that lie in a circle."""

import random
import sys


def estimate(*, seed: int, points: int) -> float:
    """Return 4 times the share of *points* random points of the unit square that are less than 1 from its corner."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    inside = sum(chance.random() ** 2 + chance.random() ** 2 < 1 for _ in range(points))
    return 4 * inside / points


if __name__ == "__main__":
    sys.stdout.write(f"pi = {estimate(seed=int(sys.argv[1]), points=int(sys.argv[2])):.6f}\n")
