from django.urls import URLPattern, path

from taskqueues.api.limits import LimitListView, LimitView
from taskqueues.api.parameters import CEParametersView, QueueParametersView, SiteParametersView
from taskqueues.api.priorities import PriorityView
from taskqueues.api.reverts import RevertView
from taskqueues.api.throttles import SiteThrottleView
from taskqueues.api.views import TaskQueueListView

urlpatterns: list[URLPattern] = [
    path("task-queues/", TaskQueueListView.as_view(), name="task-queues"),
    path("groups/<str:name>/priority/", PriorityView.as_view(), name="group-priority"),
    path("history/<int:pk>/revert/", RevertView.as_view(), name="history-revert"),
    path("limits/", LimitListView.as_view(), name="limits"),
    path("limits/<int:pk>/", LimitView.as_view(), name="limit"),
    path("sites/<str:site>/throttle/", SiteThrottleView.as_view(), name="site-throttle"),
    path("sites/<str:site>/parameters/", SiteParametersView.as_view(), name="site-parameters"),
    path("sites/<str:site>/ces/<str:ce>/parameters/", CEParametersView.as_view(), name="ce-parameters"),
    path(
        "sites/<str:site>/ces/<str:ce>/queues/<str:queue>/parameters/",
        QueueParametersView.as_view(),
        name="queue-parameters",
    ),
]
