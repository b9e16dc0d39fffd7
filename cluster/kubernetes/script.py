"""The first process of a task's container: waits for its gang, runs the command, passes TERM on to all below it.

The kernel spares the first process of a container signals that it has no handler for, so the command is never
that; and a shell does not pass TERM on to what it started. It needs no program but those of every image with a
shell; where it has no `sleep` that knows parts of a second it looks once a second.
"""

from cluster.kubernetes.options import POD_FOLDER, RUN_FOLDER

SHELL = "/bin/sh"
IDLE = "exec >/dev/null 2>&1; while :; do sleep 3600 & wait $!; done"  # keeps a place
STOPPED = 143  # as a shell says that TERM ended it
UNKNOWN = 127  # … and that a process is none that it waits for, or no more
# The other members of an MPIJob let the first one in, where their image can, and keep their place whether or not.
LET_IN = f"[ -x /usr/sbin/sshd ] && /usr/sbin/sshd -De; {IDLE}"

# Workers of an MPIJob are made from one template: which member each is, follows from the node that it came to.
# TAIJI_SEATS are words like NODE/RANK/INSTANCE.
SEAT = """\
for seat in $TAIJI_SEATS; do
    case $seat in
    "$TAIJI_NODE"/*)
        seat=${seat#*/}
        export RANK="${seat%%/*}" NODE_RANK="${seat%%/*}" TAIJI_INSTANCE_ID="${seat#*/}"
        ;;
    esac
done
unset seat TAIJI_SEATS TAIJI_NODE
"""

FIRST = f"""\
term() {{
    below=
    if [ -r "/proc/$1/task/$1/children" ]; then read -r below <"/proc/$1/task/$1/children" || :; fi
    kill -TERM "$1" 2>/dev/null  # before those below it: one that waits for them is to hear of it first
    for one in $below; do term "$one"; done
}}
trap 'if [ "$!" ]; then term "$!"; else exit {STOPPED}; fi' TERM
{SEAT}\
if [ "$TAIJI_HOSTS" ]; then printf '%s\\n' "$TAIJI_HOSTS" >{RUN_FOLDER}/hosts || exit 78; fi
mkdir -p "$TAIJI_TASK_DIR" || {{ echo "[taiji] the folder $TAIJI_TASK_DIR could not be made"; exit 78; }}
if [ "$TAIJI_WAITS" ]; then
    until [ -s {POD_FOLDER}/go ]; do sleep 0.1 2>/dev/null || sleep 1; done
fi
# In an MPIJob the members are known by name once all have a place: the word to start says them.
if [ -z "$TAIJI_HOSTS" ]; then cat {POD_FOLDER}/go >{RUN_FOLDER}/hosts || exit 78; fi
unset TAIJI_HOSTS TAIJI_WAITS
command=$1
if [ -z "$command" ]; then read -r command <{RUN_FOLDER}/command || exit 78; fi
{SHELL} -c "$command" &
child=$!
exec 2>/dev/null  # what this shell says of signals is nothing that the task printed
while :; do
    wait "$child"
    status=$?
    kill -0 "$child" 2>/dev/null && continue
    wait "$child"  # dash, cut short by a signal, may have taken the child's end and not have said so
    again=$?
    if [ "$again" = {UNKNOWN} ]; then exit "$status"; else exit "$again"; fi
done
"""
