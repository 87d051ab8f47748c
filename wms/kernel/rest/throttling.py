"""Rate limits of requests. Honest pilots, jobs and sites never meet theirs: their reports must arrive."""

from typing import TYPE_CHECKING, ClassVar

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from wms.kernel.rates import Rate, count, count_machine

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: at run time a cycle, for the settings name RequestRate


class RequestRate(BaseThrottle):
    """Counts every request of a user or machine."""

    #: Further kinds of a POST.
    of_post: ClassVar[tuple[Rate, ...]] = ()

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Count the request.

        Raises:
            RateExceededError: it is one too many.
        """
        # NB: only users are rows; pilots, jobs and sites exist as claims of their tokens.
        user_id = getattr(request.user, "pk", None)
        if user_id is not None:
            count(Rate.REQUESTS, *(self.of_post if request.method == "POST" else ()), user_id=user_id)
        elif request.user.is_authenticated:
            count_machine(str(request.user))
        return True


class SubmissionRate(RequestRate):
    """Counts submissions, in addition to requests."""

    of_post = (Rate.SUBMISSIONS,)


class SandboxRate(RequestRate):
    """Counts uploads of sandboxes, in addition to requests."""

    of_post = (Rate.SANDBOXES,)
