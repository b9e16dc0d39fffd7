"""Questions what would have been, and their answers."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("jobs", "0016_policy_history"),
    ]

    operations = [
        migrations.CreateModel(
            name="WhatIf",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField(auto_now_add=True, verbose_name="time")),
                ("days", models.PositiveSmallIntegerField(verbose_name="days")),
                ("change", models.JSONField()),
                ("base", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waits"),
                            ("running", "is replayed"),
                            ("done", "is answered"),
                            ("failed", "has failed"),
                            ("canceled", "was called off"),
                        ],
                        default="waiting",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("done", models.PositiveSmallIntegerField(default=0)),
                ("beat_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("fault", models.CharField(blank=True, max_length=255)),
                ("result", models.JSONField(null=True)),
                ("applied_at", models.DateTimeField(null=True)),
                ("applied_why", models.CharField(blank=True, max_length=255)),
                (
                    "applied_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "what-if",
                "verbose_name_plural": "what-ifs",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "running")), fields=("state",), name="one_what_if_runs"
                    )
                ],
            },
        ),
    ]
