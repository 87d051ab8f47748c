"""The check of a site's throttle during one request (docs/architecture.md, Throttles and limits).

The claim itself refuses what the numbers of a policy refuse. If the throttle depends on an expression, this module
evaluates it for the jobs of a task queue in one state of the throttle, and the claim leases a job only while the
throttle is in that state. Jobs with the same values of the attributes that the expression uses are evaluated once for
each state and process, or for each request if it uses the time, too. If the state has changed too often in between, it
is locked and the expression evaluated under that lock (ADR 29).
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from matching.services import throttles
from matching.services.claim import SeenThrottle
from resources.domain.classad import ClassAd
from resources.domain.enums import ThrottlePolicy
from resources.domain.throttle_conditions import NO_JOB
from resources.domain.throttles import PATIENCE_S, Throttle
from resources.models import Site, ThrottleState
from resources.queries.throttles import throttle_in
from taskqueues.services.classads import targets_of
from wms.kernel.db import DatabaseNow
from wms.kernel.errors import UnavailableError
from wms.kernel.memo import CachedLookups
from wms.wire.protocol import THROTTLE_BUSY

#: The site has no room according to its own advertisement.
_FULL: Final = "throttle"
#: Another match, or advertisement, came between evaluation and claim.
MOVED: Final = "throttle_moved"
#: The claim's reasons that close the whole site; for all but the first two the server must count first.
THROTTLED: Final = frozenset({_FULL, MOVED, "throttle_counted", "throttle_expired"})

#: Claims of a request that may find the state changed before the expression is evaluated under the lock.
OPTIMISTIC_TRIES: Final = 3
#: Seconds to wait for the lock of a throttle at most: others that wait for it hold it for some milliseconds each.
LOCK_WAIT_S: Final = 5.0
#: Seconds after which a pilot whose request was not decided repeats it.
ASK_AGAIN_S: Final = 2

#: Task queues whose kinds of jobs are kept for a site, some 20 MB if each is a kind of its own; then all are dropped.
MOST_REMEMBERED: Final = 20_000
#: Seconds after which they are read anew, without the task queues that are gone.
REMEMBERED_S: Final = 600.0


class ThrottleBusyError(UnavailableError):
    """The decision of the site's throttle took too long; the same request may be repeated."""

    code = THROTTLE_BUSY

    def __init__(self) -> None:
        sentence = "Too many matches at this site compete for its throttle; repeat the request after Retry-After."
        super().__init__(sentence, retry_after_s=ASK_AGAIN_S)


class ExpressionRefusal(Enum):
    """The scope of a refusal by a site's expression."""

    #: Jobs of this task queue, and others of the same kind.
    JOB = "job"
    #: Any job.
    ALL = "all"


Seen: TypeAlias = SeenThrottle | ExpressionRefusal | None
#: Called only if there is an expression.
Beside: TypeAlias = Callable[[], Collection[int]]


class _Kind(NamedTuple):
    """Jobs that an expression cannot distinguish, one of them, and their task queues, as far as they are known."""

    key: Hashable
    example: ClassAd
    task_queue_ids: set[int]


class _Kinds:
    """The kinds of jobs in task queues, for expressions that use these attributes of a job."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._kind_of: dict[int, _Kind] = {}
        self._kinds: dict[Hashable, _Kind] = {}
        self._begun_at = monotonic()

    def kind_of(self, task_queue_id: int, throttle: Throttle, *, beside: Beside) -> _Kind | None:
        """Return the kind, and read those of the task queues *beside* it; None: the task queue is gone."""
        if task_queue_id not in self._kind_of:
            for pk, job in targets_of(beside()).items():
                key = throttle.kind_of(job)
                kind = self._kind_of[pk] = self._kinds.setdefault(key, _Kind(key, job, set()))
                kind.task_queue_ids.add(pk)
        return self._kind_of.get(task_queue_id)

    @property
    def are_outdated(self) -> bool:
        """Return whether the next request should begin anew because too much is kept, or for too long."""
        return len(self._kind_of) >= MOST_REMEMBERED or monotonic() - self._begun_at > REMEMBERED_S


class _Memory:
    """Memory of this process about one site's expression; threads share it and replace outdated parts."""

    def __init__(self, site_id: int) -> None:
        self.site_id = site_id
        self._kinds = _Kinds(())
        #: Whether the last state read needed an expression: another policy may have an advertised one, which is not in
        #: the site's configuration.
        self.has_expression = False
        #: Results of the expression for each kind, in the last state read.
        self._verdicts: tuple[Hashable, dict[Hashable, bool]] = (None, {})

    def kinds(self, throttle: Throttle, *, in_use: _Kinds | None) -> _Kinds:
        """Return the kinds by the attributes that the expression uses now.

        Those that the request has in use stay, so that it need not read them while it holds the throttle's lock.
        """
        if in_use is not None and in_use.names == throttle.asks_of_the_job:
            return in_use
        if self._kinds.names != throttle.asks_of_the_job or self._kinds.are_outdated:
            self._kinds = _Kinds(throttle.asks_of_the_job)
        return self._kinds

    def verdicts(self, state: ThrottleState) -> dict[Hashable, bool]:
        """Return the results in this state by kind; the caller adds to it."""
        moment = (state.measured_at, state.version, state.matched)
        if self._verdicts[0] != moment:
            self._verdicts = (moment, {})
        return self._verdicts[1]


class _Evaluation:
    """The evaluation of a site's expression in one state of the throttle, for one request.

    Args:
        state: the state.
        memory: of this process about the site.
        now: the time of the request, by the database's clock.
        kinds: those of the evaluation before; None: it is the first one.
    """

    def __init__(self, state: ThrottleState, memory: _Memory, *, now: datetime, kinds: _Kinds | None) -> None:
        self._throttle = throttle_in(state.site, state, now=now)
        #: Of advertisement and configuration.
        self.version = state.version
        self._state = SeenThrottle(state.version, state.matched)
        self.kinds = memory.kinds(self._throttle, in_use=kinds)
        self._verdicts = {} if self._throttle.uses_time else memory.verdicts(state)

    def about(self, task_queue_id: int, *, beside: Beside, budget: "_TimeBudget") -> SeenThrottle | ExpressionRefusal:
        """Return the state if jobs of the task queue are accepted in it, else the refusal.

        Args:
            task_queue_id: primary key of the task queue.
            beside: returns task queues, this one among them, that are likely to be needed too.
            budget: bounds the evaluations.

        Raises:
            ThrottleBusyError: the evaluations of this request took too long.
        """
        if not self._throttle.asks_of_the_job:
            if self._accepts(_Kind((), NO_JOB, set()), budget):
                return self._state
            # The time may accept the next job, so the site does not count as closed.
            return ExpressionRefusal.JOB if self._throttle.uses_time else ExpressionRefusal.ALL
        kind = self.kinds.kind_of(task_queue_id, self._throttle, beside=beside)
        if kind is None:
            return self._state  # the claim finds that it is gone
        return self._state if self._accepts(kind, budget) else ExpressionRefusal.JOB

    def like(self, task_queue_id: int) -> Collection[int] | None:
        """Return the known task queues whose jobs are of the same kind; None: all are."""
        if not self._throttle.asks_of_the_job:
            return None
        kind = self.kinds.kind_of(task_queue_id, self._throttle, beside=lambda: [task_queue_id])
        return {task_queue_id} if kind is None else kind.task_queue_ids.copy()

    def _accepts(self, kind: _Kind, budget: "_TimeBudget") -> bool:
        verdict = self._verdicts.get(kind.key)
        if verdict is None:
            with budget.spent():
                verdict = self._throttle.accepts(matched=self._state.matched, job=kind.example)
            self._verdicts[kind.key] = verdict
        return verdict


class _TimeBudget:
    """The time limit of all evaluations of one request; neither claims nor waits count."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Count the time of the block.

        Raises:
            ThrottleBusyError: there was none left.
        """
        if self._left_s <= 0:
            # The remaining task queues were not evaluated, so the request must not end with "nothing fits". Results so
            # far are kept, and a repeated request continues from there.
            raise ThrottleBusyError
        begun_at = monotonic()
        yield
        self._left_s -= monotonic() - begun_at


class ThrottleCheck:
    """The throttle of the pilot's site during one request; without a site nothing is throttled.

    Args:
        site: the pilot's site.
        lookups: of the snapshot in which the request searches.
        now: ``time()`` of expressions, by the database's clock; the same for the whole request.
    """

    def __init__(self, site: Site | None, lookups: CachedLookups, *, now: datetime) -> None:
        self._site = site
        self._now = now
        self._lookups = lookups
        self._is_read = False
        #: None: no expression applies.
        self._evaluation: _Evaluation | None = None
        self._budget = _TimeBudget(PATIENCE_S)
        self._moves = 0

    @property
    def is_to_be_locked(self) -> bool:
        """Return whether the optimistic tries are used up, so that the next claim locks the throttle."""
        return self._moves >= OPTIMISTIC_TRIES

    def seen_by(self, task_queue_id: int, *, beside: Beside) -> Seen:
        """Return the state in which jobs of the task queue are accepted; None: no expression applies.

        Raises:
            ThrottleBusyError: the evaluations of this request took too long.
        """
        if not self._is_read and self._site is not None and self._is_to_be_read(self._site):
            self._read(self._site)
        if self._evaluation is None:
            return None
        return self._evaluation.about(task_queue_id, beside=beside, budget=self._budget)

    def refused_with(self, task_queue_id: int) -> Collection[int] | None:
        """Return the task queues that are refused together with one whose jobs are; None: all."""
        return {task_queue_id} if self._evaluation is None else self._evaluation.like(task_queue_id)

    def read_again(self) -> None:
        """Read the state again, after a claim found it changed."""
        if self._site is not None:
            self._moves += 1
            self._read(self._site)

    def read_matches(self) -> bool:
        """Read under the throttle's lock the matches since; False: texts and jobs are to be read first, without it."""
        state = None if self._site is None else _state_with_expression(self._site)
        if state is None or self._evaluation is None or state.version != self._evaluation.version:
            return False
        self._evaluate(state)
        return True

    def has_opened(self, reason: str) -> bool:
        """Return whether to try again, after a claim was refused for one of ``THROTTLED``."""
        if self._site is None or reason == _FULL:
            return False
        if reason == MOVED:
            self.read_again()
            return True
        self._is_read, self._evaluation = False, None
        return throttles.count(self._site.pk)

    def _is_to_be_read(self, site: Site) -> bool:
        """Return whether an expression is expected; a claim reports an unexpected one as a changed state."""
        if site.throttle_policy in {ThrottlePolicy.NONE, ThrottlePolicy.CUSTOM}:
            return site.throttle_policy == ThrottlePolicy.CUSTOM
        return self._lookups.get(_Memory, site.pk).has_expression

    def _read(self, site: Site) -> None:
        self._is_read = True
        state = _state_with_expression(site)
        self._lookups.get(_Memory, site.pk).has_expression = state is not None
        if state is None:
            self._evaluation = None
        else:
            self._evaluate(state)

    def _evaluate(self, state: ThrottleState) -> None:
        kinds = None if self._evaluation is None else self._evaluation.kinds
        self._evaluation = _Evaluation(state, self._lookups.get(_Memory, state.site_id), now=self._now, kinds=kinds)


def _state_with_expression(site: Site) -> ThrottleState | None:
    """Return the state of the site's throttle if an expression decides in it.

    Not an expired state: the claim reports it, and has it counted anew. The site is read with it, because the memoised
    one may have had another policy, or another expression, a second ago.
    """
    open_now = ThrottleState.objects.filter(site=site, room=None, expires_at__gt=DatabaseNow())
    return open_now.select_related("site").first()


@contextmanager
def throttle_lock() -> Iterator[None]:
    """Open the transaction in which a claim keeps the lock of a throttle.

    Raises:
        ThrottleBusyError: no lock within LOCK_WAIT_S.
    """
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_WAIT_S * 1000:.0f}"])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise ThrottleBusyError from error
        raise
