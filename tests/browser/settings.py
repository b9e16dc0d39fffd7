"""The product's settings, but a password costs nothing: each test logs in."""

from taiji_site.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
