from django.db import migrations
from django.db.models import OuterRef, Subquery


def fill(apps, schema_editor):
    """Write the gang of its instance on each lease."""
    gang = apps.get_model('cluster', 'Instance').objects.filter(pk=OuterRef('instance')).values('gang')
    apps.get_model('cluster', 'CardLease').objects.filter(gang=0).update(gang=Subquery(gang))


class Migration(migrations.Migration):

    dependencies = [
        ('cluster', '0003_lease_gang'),
    ]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
