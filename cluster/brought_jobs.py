"""MPIJobs that people make in a cluster themselves: what its controller saw of them, and what the platform says."""

from django.db import models


class BroughtJob(models.Model):
    """An MPIJob of somebody, which becomes a task."""

    region = models.ForeignKey("cluster.Region", models.PROTECT, related_name="+")
    uid = models.CharField(max_length=64, unique=True)
    namespace = models.CharField(max_length=64)
    name = models.CharField(max_length=253)
    owner = models.CharField(max_length=150, blank=True)  # username
    document = models.JSONField(default=dict)  # what it asks for, in the words of a task's document
    faults = models.JSONField(default=list)  # why it cannot be a task, in sentences
    deleted = models.BooleanField(default=False)  # it is there no more

    task = models.BigIntegerField(null=True)  # the number that its task has where tasks are known
    state = models.CharField(max_length=16, blank=True)  # of that, or `refused`; blank: nobody looked yet
    sentence = models.TextField(blank=True)  # why it waits, ended, or was refused

    class Meta:
        indexes = [models.Index(fields=["region", "deleted"], name="brought_there")]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
