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
TRUSTED_PROXIES = env.networks("TAIJI_TRUSTED_PROXIES", "")  # whose X-Forwarded-For is believed
CSRF_TRUSTED_ORIGINS = env.names("TAIJI_TRUSTED_ORIGINS", "")

INSTALLED_APPS = [
    "taiji_site.apps.OperationsConfig",
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
    "import_export",
    "rest_framework",
    "simple_history",
    "template_partials",
    "cluster",
    "quotas",
    "jobs",
    "taiji_site",
]

MIDDLEWARE = [
    "quotas.origin.middleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "taiji_site.static_files.serve",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "jobs.portal.present.Authentication",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "jobs.api.limits.headers",
    "simple_history.middleware.HistoryRequestMiddleware",
    "taiji_site.anew.OnceMore",
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
                "taiji_site.context.roles",
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
# PostgreSQL: threads of the web process keep a connection each (cluster/threads.py seven, jobs/api/lane.py six), so a
# pool of the usual four would leave none for pages.
POOL = {"min_size": 1, "max_size": 26}
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
CELERY_BEAT_SCHEDULER = "taiji_site.beat:Beat"
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
# Crontabs without a minute are due at each full one, others once an hour.
CELERY_BEAT_SCHEDULE = {
    "pass": {"task": "jobs.run_pass", "schedule": float(PASS_PERIOD_S)},
    "brought-jobs": {"task": "jobs.adopt_brought", "schedule": 2.0},
    "look-ahead": {"task": "jobs.look_ahead", "schedule": 10.0},
    "old-logs": {"task": "jobs.remove_old_logs", "schedule": crontab(minute="23")},
    "old-card-metrics": {"task": "jobs.remove_old_card_metrics", "schedule": crontab(minute="29")},
    "old-host-events": {"task": "jobs.remove_old_host_events", "schedule": crontab(minute="31")},
    "what-ifs": {"task": "jobs.answer_what_ifs", "schedule": 5.0},
    "old-pass-minutes": {"task": "jobs.remove_old_pass_minutes", "schedule": crontab(minute="43")},
    "old-what-ifs": {"task": "jobs.remove_old_what_ifs", "schedule": crontab(minute="47")},
    "uploads": {"task": "jobs.collect_uploads", "schedule": crontab(minute="17")},
    "day-use": {"task": "jobs.sum_up_use", "schedule": crontab(minute="41")},
    "kept-answers": {"task": "jobs.forget_answers", "schedule": crontab(minute="37")},
    "free-cards": {"task": "jobs.sample_free_cards", "schedule": crontab()},
    "stuck-instances": {"task": "jobs.note_stuck_instances", "schedule": crontab()},
    "host-mails": {"task": "jobs.send_host_mails", "schedule": crontab()},
}
PASS_TASK = "jobs.run_pass"
# A thread for each of the others, which run once at a time (jobs/tasks.py), and two for passes: one waits while
# another runs. They are made when they are needed.
CELERY_WORKER_CONCURRENCY = len(CELERY_BEAT_SCHEDULE) - 1 + 2
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # a killed worker takes what it fetched with it

# Mails to operators (cluster/host_mails.py); without a mail server none are sent.
_mail_server = env.mail_server("TAIJI_MAIL_URL")
EMAIL_HOST, EMAIL_PORT = _mail_server.host, _mail_server.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail_server.user, _mail_server.password
EMAIL_USE_TLS = _mail_server.scheme == "smtp+tls"
EMAIL_USE_SSL = _mail_server.scheme == "smtp+ssl"
EMAIL_TIMEOUT = 10  # seconds, for each answer of it
MAIL_FROM = env.mailboxes("TAIJI_MAIL_FROM", 1)
if MAIL_FROM:
    DEFAULT_FROM_EMAIL = MAIL_FROM[0]
MAIL_OPERATORS = env.mailboxes("TAIJI_OPERATORS_MAIL", 50)
MAIL_LANGUAGE = env.choice("TAIJI_MAIL_LANGUAGE", ("en", "zh-hans"))
PUBLIC_URL = env.address("TAIJI_PUBLIC_URL", "https://taiji.example.com")  # what links in mails begin with

# The company's identity provider (quotas/oidc.py); the names that begin with OIDC_RP are the library's.
OIDC_ISSUER = env.address("TAIJI_OIDC_ISSUER")
OIDC_RP_CLIENT_ID = env.text("TAIJI_OIDC_CLIENT_ID", "")
OIDC_RP_CLIENT_SECRET = env.text("TAIJI_OIDC_CLIENT_SECRET", "")
OIDC_RP_SCOPES = env.text("TAIJI_OIDC_SCOPES", "openid profile email")
OIDC_RP_SIGN_ALGO = env.choice("TAIJI_OIDC_ALGORITHM", ("RS256", "ES256"))
OIDC_GROUPS_CLAIM = env.text("TAIJI_OIDC_GROUPS", "groups")
OIDC_NAME = env.text("TAIJI_OIDC_NAME", "OpenID Connect")
OIDC_TIMEOUT = 10  # seconds
OIDC_USE_PKCE = True
OIDC_STORE_ID_TOKEN = True  # in the session: the provider wants it at the logout
AUTHENTICATION_BACKENDS = [
    "quotas.backend.RoleBackend",
    *(["quotas.oidc.ProviderBackend"] if OIDC_ISSUER else []),
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

# Who changed quotas, policy and the like, and why (cluster/kept_admin.py); tables in and out (quotas/exchange.py).
SIMPLE_HISTORY_HISTORY_CHANGE_REASON_USE_TEXT_FIELD = True
IMPORT_EXPORT_IMPORT_PERMISSION_CODE = "change"
IMPORT_EXPORT_EXPORT_PERMISSION_CODE = "view"

API_RATE = env.number("TAIJI_API_RATE", 30_000, 0, 10**9)  # calls of a token per minute; 0: no limit
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "jobs.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "jobs.api.authentication.WithinScope",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["jobs.api.limits.PerToken"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["jobs.api.parsers.DocumentParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "jobs.api.errors.handle",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Taiji API",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "DESCRIPTION": (
        "Everything the portal can do, for scripts. Errors come in one form and in the language of Accept-Language; "
        "the same Idempotency-Key gives the same answer for a day; lists are pages: follow `next`."
    ),
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": ["jobs.api.schema.complete"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],  # Tabler's icons are data: images of its stylesheet
        "object-src": [NONE],
        "base-uri": [SELF],
        # The form that logs out leads on to the provider.
        "form-action": [SELF, *([env.origin(OIDC_ISSUER)] if OIDC_ISSUER else [])],
        "frame-ancestors": [NONE],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_ENGINE = "quotas.sessions"
SESSION_COOKIE_AGE = env.number("TAIJI_SESSION_HOURS", 336, 1, 8784) * 3600
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("TAIJI_BEHIND_TLS_PROXY", False) else None
)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_PROXY_SSL_HEADER is not None
# Where people come by HTTPS alone: who asks by HTTP is sent there, and browsers remember it for a year. The agents and
# programs of this machine, and whoever asks whether it is alive, come by the loopback, without a proxy.
SECURE_SSL_REDIRECT = env.flag("TAIJI_HTTPS_ONLY", False)
SECURE_REDIRECT_EXEMPT = [r"^api/agent/", r"^healthz/"]
SECURE_HSTS_SECONDS = 365 * 86400 if SECURE_SSL_REDIRECT else 0
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # other names below ours are not ours to decide about
    "security.W021",  # nor is the list that browsers are delivered with
]

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
