"""What tests of the submit form send, and what comes of it."""

from django.test import Client

from jobs.models import Task
from jobs.portal.forms import ConfigForm

GOOD = {
    "business_flag": "ads",
    "task_flag": "demo",
    "is_elasticity": "false",
    "GPUName": "P40",
    "host_num": "1",
    "host_gpu_num": "2",
    "start_cmd": "python train.py",
}


def submitted(browser: Client, **fields: str) -> Task:
    """Submit the good form with `fields` over it, and return the task it became."""
    answer = browser.post("/tasks/new/", GOOD | fields)
    assert answer.status_code == 302, answer.context["form"].errors
    task = Task.objects.latest("pk")
    assert answer["Location"] == f"/tasks/{task.pk}/"
    return task


def refused(browser: Client, **fields: str) -> ConfigForm:
    """Submit the good form with `fields` over it, and return the form that comes back."""
    answer = browser.post("/tasks/new/", GOOD | fields)
    assert answer.status_code == 200
    form = answer.context["form"]
    assert isinstance(form, ConfigForm)
    assert form.errors or form.general
    return form
