import cluster.characters
import cluster.clock
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0018_host_mails"),
    ]

    operations = [
        # Nothing in the database changes: SQLite would make the tables anew.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="cardlease",
                    name="leased_at",
                    field=models.DateTimeField(default=cluster.clock.now, editable=False),
                ),
                migrations.AlterField(
                    model_name="gputype",
                    name="name",
                    field=models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[cluster.characters.one_line],
                        verbose_name="name",
                    ),
                ),
                migrations.AlterField(
                    model_name="historicalgputype",
                    name="name",
                    field=models.CharField(
                        db_index=True,
                        max_length=64,
                        validators=[cluster.characters.one_line],
                        verbose_name="name",
                    ),
                ),
                migrations.AlterField(
                    model_name="host",
                    name="name",
                    field=models.CharField(
                        max_length=128,
                        unique=True,
                        validators=[cluster.characters.one_line],
                        verbose_name="name",
                    ),
                ),
                migrations.AlterField(
                    model_name="host",
                    name="state_changed_at",
                    field=models.DateTimeField(
                        default=cluster.clock.now, editable=False, verbose_name="state since"
                    ),
                ),
                migrations.AlterField(
                    model_name="instance",
                    name="created_at",
                    field=models.DateTimeField(default=cluster.clock.now, editable=False),
                ),
                migrations.AlterField(
                    model_name="region",
                    name="name",
                    field=models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[cluster.characters.one_line],
                        verbose_name="name",
                    ),
                ),
            ]
        )
    ]
