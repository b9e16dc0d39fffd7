"""All settings of the product, read from the environment (see docs/settings.md)."""

from pathlib import Path

from celery.schedules import crontab
from csp.constants import NONE, SELF
from django.core.management.utils import get_random_secret_key

from taiji_site import env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("TAIJI_DATA", str(BASE_DIR / "var"))).resolve()
RUN_DIR = Path(env.text("TAIJI_RUN", str((DATA_DIR / "run").resolve())))  # a link where the path is too long
_secrets = env.secrets(DATA_DIR)

# Commands that need no secret (the simulator) run without one; taiji.E001 stops everything else.
SECRET_KEY_GIVEN = env.text("TAIJI_SECRET_KEY", _secrets.get("secret_key", ""))
SECRET_KEY = SECRET_KEY_GIVEN or get_random_secret_key()
VAULT_KEYS = env.names("TAIJI_VAULT_KEYS", _secrets.get("vault_keys", ""))
JOIN_TOKEN = env.text("TAIJI_JOIN_TOKEN", _secrets.get("join_token", ""))

DEBUG = env.flag("TAIJI_DEBUG", False)
# The agents and script/up of this machine come by the loopback, under whatever name the people come.
ALLOWED_HOSTS = [*env.names("TAIJI_ALLOWED_HOSTS", "*"), "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = env.names("TAIJI_TRUSTED_ORIGINS", "")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
    "template_partials",
    "cluster",
    "quotas",
    "jobs",
    "taiji_site",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "taiji_site.urls"
ASGI_APPLICATION = "taiji_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
                "taiji_site.context.scheduler",
            ],
            "builtins": ["django.templatetags.i18n"],
        },
    }
]

# SQLite: IMMEDIATE makes every atomic block a writer from its first statement on, so two writers queue
# on the busy time-out instead of failing when they upgrade together.
SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
}
# PostgreSQL: four threads of the web process keep a connection each (cluster/threads.py), so a pool of the usual
# four would leave none for pages.
POOL = {"min_size": 1, "max_size": 20}
_postgres = env.database("DATABASE_URL")
if _postgres:
    # What the address asks for, such as sslmode, holds.
    DATABASES = {"default": {**_postgres, "OPTIONS": {**_postgres.get("OPTIONS", {}), "pool": POOL}}}
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "taiji.sqlite3",
            "OPTIONS": SQLITE_OPTIONS,
        }
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.shaped(
    "REDIS_URL",
    env.socket_url(RUN_DIR / "valkey.sock"),
    r"(rediss?://[^/\s]|unix://([^@/\s]*@)?/)\S*",
    "redis://host:6379/0",
)

# Messages are hints: a lost one costs one period of the beat, a doubled one nothing.
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "celery.beat:PersistentScheduler"
# What containers of tasks may use, in the words of cluster/agent/protocol.py; 0: no limit.
CONTAINER = {
    "user": env.shaped("TAIJI_CONTAINER_USER", "", r"\d{1,10}(:\d{1,10})?", "1000 or 1000:1000"),
    "memory_mib_per_card": env.number("TAIJI_CONTAINER_MEMORY_MIB", 0, 0, 2**24),
    "cpus_per_card": env.number("TAIJI_CONTAINER_CPUS", 0, 0, 4096),
    "shm_mib": env.number("TAIJI_CONTAINER_SHM_MIB", 8192, 0, 2**24),
    "pids": env.number("TAIJI_CONTAINER_PIDS", 32768, 0, 2**22),
    "network": env.choice("TAIJI_CONTAINER_NETWORK", ("host", "bridge", "none")),
    "read_only": env.flag("TAIJI_CONTAINER_READ_ONLY", False),
    "pull_timeout_s": env.number("TAIJI_PULL_TIMEOUT", 600, 1, 86400),
}
DEFAULT_IMAGE = env.text("TAIJI_IMAGE", "")
REGISTRY_AUTH = env.text("TAIJI_REGISTRY_AUTH", "")

PASS_PERIOD_S = env.number("TAIJI_PASS_PERIOD", 2, 1, 60)
CELERY_BEAT_SCHEDULE = {
    "pass": {
        "task": "jobs.run_pass",
        "schedule": float(PASS_PERIOD_S),
        "options": {"expires": PASS_PERIOD_S * 2},
    },
    "look-ahead": {
        "task": "jobs.look_ahead",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "old-logs": {
        "task": "jobs.remove_old_logs",
        "schedule": crontab(minute="23"),
        "options": {"expires": 3000},
    },
    "old-card-metrics": {
        "task": "jobs.remove_old_card_metrics",
        "schedule": crontab(minute="29"),
        "options": {"expires": 3000},
    },
    "old-host-events": {
        "task": "jobs.remove_old_host_events",
        "schedule": crontab(minute="31"),
        "options": {"expires": 3000},
    },
    "uploads": {
        "task": "jobs.collect_uploads",
        "schedule": crontab(minute=17),  # once an hour
        "options": {"expires": 600},
    },
    "free-cards": {
        "task": "jobs.sample_free_cards",
        "schedule": crontab(),  # at each full minute
        "options": {"expires": 30},
    },
    "stuck-instances": {
        "task": "jobs.note_stuck_instances",
        "schedule": crontab(),
        "options": {"expires": 30},
    },
}
PASS_TASK = "jobs.run_pass"
# A thread for each of the others, which run once at a time (jobs/tasks.py), and two for passes: one waits while
# another runs. They are made when they are needed.
CELERY_WORKER_CONCURRENCY = len(CELERY_BEAT_SCHEDULE) - 1 + 2
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # a killed worker takes what it fetched with it

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "jobs.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["jobs.api.parsers.DocumentParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "jobs.api.errors.handle",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Taiji API",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],  # Tabler's icons are data: images of its stylesheet
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("TAIJI_BEHIND_TLS_PROXY", False) else None
)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_PROXY_SSL_HEADER is not None

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
TIME_ZONE = env.zone("TAIJI_TIME_ZONE", "UTC")
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]

TASK_LOG_DIR = DATA_DIR / "task-logs"

# Code of tasks: what is uploaded, and where git may fetch from.
CODE_DIR = DATA_DIR / "code"
UPLOAD_MIB = env.number("TAIJI_UPLOAD_MIB", 512, 1, 2**20)
UPLOADS_MIB = env.number("TAIJI_UPLOADS_MIB", 20_480, 1, 2**30)
UPLOADS_AT_ONCE_MIB = env.number("TAIJI_UPLOADS_AT_ONCE_MIB", 2048, 1, 2**20)
UPLOAD_KEEP_DAYS = env.number("TAIJI_UPLOAD_KEEP_DAYS", 30, 1, 3650)
CODE_UNPACKED_MIB = env.number("TAIJI_CODE_UNPACKED_MIB", 4096, 1, 2**30)
CODE_FILES = env.number("TAIJI_CODE_FILES", 100_000, 1, 10_000_000)
GIT_PREFIXES = env.addresses("TAIJI_GIT", "")
PREPARE_S = env.number("TAIJI_PREPARE_S", 840, 10, 86_400)
# How long logs of tasks are kept after the end; 0: for ever.
LOG_DAYS = env.number("TAIJI_LOG_DAYS", 90, 0, 36500)
HOST_EVENT_DAYS = env.number("TAIJI_HOST_EVENT_DAYS", 90, 0, 36500)
CARD_METRICS_DAYS = env.number("TAIJI_CARD_METRICS_DAYS", 14, 0, 36500)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {
        "handlers": ["console"],
        "level": env.choice("TAIJI_LOG_LEVEL", ("INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL")),
    },
    "loggers": {"httpx": {"level": "WARNING"}, "celery": {"level": "WARNING"}},  # INFO: lines for every pass
}
