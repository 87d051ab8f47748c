"""Throttles that are patient, in all tests of matches."""

from tests.clock import patient_throttles

__all__ = ["patient_throttles"]
