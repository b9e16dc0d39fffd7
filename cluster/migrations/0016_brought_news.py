import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0015_brought_jobs"),
    ]

    operations = [
        migrations.AddField(
            model_name="broughtjob",
            name="said_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="broughtjob",
            name="heard",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="broughtjob",
            name="types",
            field=models.JSONField(default=list),
        ),
        migrations.CreateModel(
            name="BroughtNews",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("reason", models.CharField(max_length=32)),
                ("warning", models.BooleanField(default=False)),
                ("message", models.TextField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="news",
                        to="cluster.broughtjob",
                    ),
                ),
            ],
        ),
    ]
