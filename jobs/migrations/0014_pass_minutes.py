"""A row for each minute in which passes planned."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0013_kept_answers")]

    operations = [
        migrations.CreateModel(
            name="PassMinute",
            fields=[
                ("minute", models.IntegerField(primary_key=True, serialize=False)),
                ("passes", models.PositiveIntegerField()),
                ("took_ms", models.FloatField()),
                ("longest_ms", models.FloatField()),
                ("starts", models.PositiveIntegerField()),
                ("evictions", models.PositiveIntegerField()),
            ],
        ),
    ]
