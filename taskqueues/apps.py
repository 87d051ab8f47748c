from django.apps import AppConfig


class TaskQueuesConfig(AppConfig):
    name = "taskqueues"
    verbose_name = "Task queues"
