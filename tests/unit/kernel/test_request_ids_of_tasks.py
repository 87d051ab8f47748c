"""The id of a request goes with the tasks that it sends, and is that of the lines of these."""

from celery.signals import before_task_publish, task_postrun, task_prerun

from wms import celery
from wms.kernel.callers import current_request_id
from wms.kernel.request_ids import OF_TASK
from wms.kernel.tasks import report_liveness


def published() -> dict[str, object]:
    """Return the headers of a message that is sent now."""
    headers: dict[str, object] = {}
    before_task_publish.send(sender=report_liveness.name, headers=headers, body=(), exchange="", routing_key="")
    return headers


def test_a_task_carries_the_id_of_the_request_that_sends_it() -> None:
    assert OF_TASK not in published()
    token = current_request_id.set("a-1")
    try:
        assert published()[OF_TASK] == "a-1"
    finally:
        current_request_id.reset(token)


def test_the_lines_of_a_task_have_that_id_until_its_end() -> None:
    task = celery.app.tasks[report_liveness.name]
    task.push_request(id="its-id", **{OF_TASK: "a-1"})
    try:
        task_prerun.send(sender=task, task_id="its-id", task=task)
        assert current_request_id.get() == "a-1"
        # What it sends itself has the id, too.
        assert published()[OF_TASK] == "a-1"
        task_postrun.send(sender=task, task_id="its-id", task=task)
        assert current_request_id.get() == ""
    finally:
        task.pop_request()
