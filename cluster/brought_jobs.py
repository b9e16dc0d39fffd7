"""MPIJobs that people make in a cluster themselves: what its controller saw of them, and what the platform says."""

from django.db import models


class BroughtJob(models.Model):
    """An MPIJob of somebody, which becomes a task."""

    REFUSED = "refused"

    region = models.ForeignKey("cluster.Region", models.PROTECT, related_name="+")
    uid = models.CharField(max_length=64, unique=True)
    namespace = models.CharField(max_length=64)
    name = models.CharField(max_length=253)
    owner = models.CharField(max_length=150, blank=True)  # username
    document = models.JSONField(default=dict)  # what it asks for, in the words of a task's document
    types = models.JSONField(default=list)  # names of the types that its cards may be of
    faults = models.JSONField(default=list)  # why it cannot be a task, in sentences
    deleted = models.BooleanField(default=False)  # it is there no more

    task = models.BigIntegerField(null=True)  # the number that its task has where tasks are known
    state = models.CharField(max_length=16, blank=True)  # of that, or `refused`; blank: nobody looked yet
    sentence = models.TextField(blank=True)  # why it waits, ended, or was refused
    said_at = models.DateTimeField(null=True)  # when that was written
    heard = models.BigIntegerField(default=0)  # the last event of the task that its owner is told of

    class Meta:
        indexes = [models.Index(fields=["region", "deleted"], name="brought_there")]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class BroughtNews(models.Model):
    """Something that happened to the task of an MPIJob, to be told there by an event; gone once that is done."""

    job = models.ForeignKey(BroughtJob, models.CASCADE, related_name="news")
    at = models.DateTimeField()
    reason = models.CharField(max_length=32)  # in one word, as events of a cluster have it
    warning = models.BooleanField(default=False)
    message = models.TextField()

    def __str__(self) -> str:
        return f"{self.job_id}: {self.reason}"
