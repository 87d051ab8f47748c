"""A restricted ClassAd language, safe for untrusted text: bounded in size, depth and steps.

JDL uses it for jobs, and a site's throttle may be an expression of it (SAM). evaluation.py lists the differences from
HTCondor's ClassAds.
"""

from resources.domain.classad.analysis import Reach
from resources.domain.classad.evaluation import Value
from resources.domain.classad.language import (
    ClassAd,
    Expression,
    are_true,
    classad_of,
    each_value_of,
    evaluate,
    is_true,
    may_be_true,
    parse_classad,
    parse_expression,
    values_of,
)
from resources.domain.classad.lexer import MAX_BYTES, ClassAdError
from resources.domain.classad.syntax import MAX_DEPTH, MAX_NODES
from resources.domain.classad.values import ERROR, UNDEFINED

__all__ = [
    "ERROR",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "UNDEFINED",
    "ClassAd",
    "ClassAdError",
    "Expression",
    "Reach",
    "Value",
    "are_true",
    "classad_of",
    "each_value_of",
    "evaluate",
    "is_true",
    "may_be_true",
    "parse_classad",
    "parse_expression",
    "values_of",
]
