#!/bin/sh
# Run `python launch ARGUMENTS` with a Python that is new enough, or say in one sentence that there is none.
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1

if [ -e "$root/.venv/.taiji" ] && "$root/.venv/bin/python" -I -S -c '' 2>/dev/null; then
    exec "$root/.venv/bin/python" -X utf8 "$root/launch" "$@"
fi

# A Python without venv and ensurepip (Debian packs them apart) serves only where uv makes the environment.
probe='
import sys
old = sys.version_info < (3, 11)
try:
    import ensurepip, venv
    bare = False
except ImportError:
    bare = True
print("%d.%d.%d" % sys.version_info[:3], "old" if old else "bare" if bare else "good")
'
found=''
judge() { # sets `verdict` to good, bare, old or none
    verdict=none
    path=$(command -v "$1" 2>/dev/null) || return 0
    answer=$("$path" -c "$probe" 2>/dev/null) || return 0
    verdict=${answer#* }
    [ "$verdict" = bare ] && command -v uv >/dev/null 2>&1 && verdict=good
    [ "$verdict" = bare ] && answer="$answer (its venv module is missing: package python3-venv on Debian)"
    case ", $found," in
        *", $path is "*) ;;
        *) found="$found${found:+, }$path is $(echo "$answer" | sed 's/ bare//; s/ old//')" ;;
    esac
}

if [ -n "$TAIJI_PYTHON" ]; then
    set -- "$TAIJI_PYTHON" -- "$@"
else
    set -- python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11 python -- "$@"
fi
chosen=''
while [ "$1" != -- ]; do
    if [ -z "$chosen" ]; then
        judge "$1"
        [ "$verdict" = good ] && chosen=$path
    fi
    shift
done
shift
if [ -n "$chosen" ]; then
    exec "$chosen" -X utf8 "$root/launch" "$@"
fi
echo "Taiji needs Python 3.11 or newer (${found:-no Python was found}): install one, or name it with TAIJI_PYTHON=/path/to/python3." >&2
exit 1
