"""The budget of one request for all of its descriptions: parsing occupies a worker of the server."""

from typing import Final

from wms.jobs.domain.description import InvalidDescriptionError
from wms.kernel.errors import RejectedError

MAX_JOBS: Final = 10_000
#: Characters of all descriptions after expansion; a 64 kB text can describe gigabytes.
MAX_EXPANDED_CHARACTERS: Final = 64 * 1024 * 1024
#: Parsing stops after so many wrong descriptions: they take as long as valid ones, and the first are enough for users.
MAX_WRONG_DESCRIPTIONS: Final = 10


class InvalidSubmissionError(RejectedError):
    """The request around the descriptions is wrong."""

    code = "invalid_submission"


class Allowance:
    """The remaining budget of one request; wrong descriptions count too."""

    def __init__(self) -> None:
        self._jobs = MAX_JOBS
        self._expanded_characters = MAX_EXPANDED_CHARACTERS

    def take_jobs(self, count: int) -> None:
        """Take the budget of further jobs.

        Raises:
            InvalidSubmissionError: too many jobs.
        """
        self._jobs -= count
        if self._jobs < 0:
            sentence = f"These are more than {MAX_JOBS} jobs in all; submit them in several requests."
            raise InvalidSubmissionError(sentence, errors={"jobs": [sentence]})

    def take_expanded(self, characters: int) -> None:
        """Take the budget of further characters of expanded descriptions.

        Raises:
            InvalidDescriptionError: too many characters.
        """
        self._expanded_characters -= characters
        if self._expanded_characters < 0:
            megabytes = MAX_EXPANDED_CHARACTERS // 2**20
            sentence = f"These jobs would have more than {megabytes} MB of text; shorten it or submit fewer at once."
            raise InvalidDescriptionError({"parameters": [sentence]})
