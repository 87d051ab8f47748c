"""Throttles that are patient, in all tests of concurrent matches."""

from tests.clock import patient_throttles

__all__ = ["patient_throttles"]
