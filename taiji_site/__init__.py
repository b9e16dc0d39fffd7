"""The wiring: settings, addresses, ASGI, Celery; it decides nothing."""

from taiji_site.celery import app as celery_app

__all__ = ["celery_app"]
