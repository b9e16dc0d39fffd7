from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("cluster", "0011_host_event_by_code"),
    ]

    operations = [
        migrations.AddField(
            model_name="host",
            name="node",
            field=models.CharField(blank=True, db_default="", editable=False, max_length=253, verbose_name="node"),
        ),
        migrations.AddConstraint(
            model_name="host",
            constraint=models.UniqueConstraint(
                condition=models.Q(("node", ""), _negated=True), fields=("region", "node"), name="node_once"
            ),
        ),
    ]
