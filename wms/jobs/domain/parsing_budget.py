"""What all descriptions of one request may cost together: a worker of the server reads them and does nothing else."""

from typing import Final

from wms.jobs.domain.description import InvalidDescriptionError
from wms.kernel.errors import RejectedError

MAX_JOBS: Final = 10_000
#: A 64 kB text can ask for gigabytes of jobs; so much text all descriptions may have once they are expanded.
MAX_EXPANDED_CHARACTERS: Final = 64 * 1024 * 1024
#: Reading ends at this one: a wrong description costs as much as a right one, and the first ones tell the story.
MAX_WRONG_DESCRIPTIONS: Final = 10


class InvalidSubmissionError(RejectedError):
    """The request around the descriptions is wrong."""

    code = "invalid_submission"


class Allowance:
    """What is left to one request; wrong descriptions count as right ones do."""

    def __init__(self) -> None:
        self._jobs = MAX_JOBS
        self._expanded_characters = MAX_EXPANDED_CHARACTERS

    def take_jobs(self, count: int) -> None:
        """Count so many more jobs.

        Raises:
            InvalidSubmissionError: they are too many.
        """
        self._jobs -= count
        if self._jobs < 0:
            sentence = f"These are more than {MAX_JOBS} jobs in all; submit them in several requests."
            raise InvalidSubmissionError(sentence, errors={"jobs": [sentence]})

    def take_expanded(self, characters: int) -> None:
        """Count so much more text of expanded descriptions.

        Raises:
            InvalidDescriptionError: it is too much.
        """
        self._expanded_characters -= characters
        if self._expanded_characters < 0:
            megabytes = MAX_EXPANDED_CHARACTERS // 2**20
            sentence = f"These jobs would have more than {megabytes} MB of text; shorten it or submit fewer at once."
            raise InvalidDescriptionError({"parameters": [sentence]})
