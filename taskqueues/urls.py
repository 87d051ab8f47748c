from django.urls import URLPattern, path

from taskqueues.api.views import TaskQueueListView

urlpatterns: list[URLPattern] = [
    path("task-queues/", TaskQueueListView.as_view(), name="task-queues"),
]
