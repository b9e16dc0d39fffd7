"""What is kept of a host whose calls to the platform fail again and again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Hosts are warned of by it; null is all well."""

    dependencies = [("cluster", "0016_brought_news")]

    operations = [
        migrations.AddField("host", "calls", models.JSONField(editable=False, null=True)),
    ]
