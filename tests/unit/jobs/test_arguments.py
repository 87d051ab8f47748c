"""The server refuses exactly the arguments that a pilot could not split."""

import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from wms.jobs.domain.submission_warnings import quotes_are_closed


@given(st.text(st.sampled_from("a \\'\"$\n\r\t;#\u00e9")))
@example("it's")
@example('"\\')
@example("# 'no comment")
def test_arguments_are_closed_if_a_pilot_can_split_them(arguments: str) -> None:
    try:
        shlex.split(arguments)
    except ValueError:
        assert not quotes_are_closed(arguments)
    else:
        assert quotes_are_closed(arguments)
