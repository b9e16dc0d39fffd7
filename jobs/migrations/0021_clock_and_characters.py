import cluster.characters
import cluster.clock
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0020_what_if_tries"),
    ]

    operations = [
        # Nothing in the database changes: SQLite would make the tables anew.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="code",
                    name="created_at",
                    field=models.DateTimeField(default=cluster.clock.now, editable=False),
                ),
                migrations.AlterField(
                    model_name="dataset",
                    name="created_at",
                    field=models.DateTimeField(default=cluster.clock.now, editable=False),
                ),
                migrations.AlterField(
                    model_name="savedview",
                    name="name",
                    field=models.CharField(
                        max_length=40, validators=[cluster.characters.one_line], verbose_name="name"
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="queued_at",
                    field=models.DateTimeField(
                        default=cluster.clock.now, editable=False, verbose_name="waits since"
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="submitted_at",
                    field=models.DateTimeField(
                        default=cluster.clock.now, editable=False, verbose_name="submitted"
                    ),
                ),
                migrations.AlterField(
                    model_name="template",
                    name="description",
                    field=models.CharField(
                        blank=True,
                        max_length=255,
                        validators=[cluster.characters.one_line],
                        verbose_name="description",
                    ),
                ),
                migrations.AlterField(
                    model_name="template",
                    name="name",
                    field=models.CharField(
                        max_length=128, validators=[cluster.characters.one_line], verbose_name="name"
                    ),
                ),
                migrations.AlterField(
                    model_name="upload",
                    name="created_at",
                    field=models.DateTimeField(default=cluster.clock.now, editable=False),
                ),
                migrations.AlterField(
                    model_name="whatif",
                    name="state",
                    field=models.CharField(
                        choices=[
                            ("waiting", "waits"),
                            ("running", "is being replayed"),
                            ("done", "is answered"),
                            ("failed", "has failed"),
                            ("canceled", "was called off"),
                        ],
                        default="waiting",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                migrations.AlterField(
                    model_name="whatif",
                    name="made_at",
                    field=models.DateTimeField(
                        default=cluster.clock.now, editable=False, verbose_name="time"
                    ),
                ),
            ]
        )
    ]
