"""The words between an agent and the platform: JSON over HTTPS, shapes and meaning.

`POST /api/agent/register/` (header `Authorization: Bearer JOIN_TOKEN`)
    asks  {"name", "region", "address", "protocol"}
    gets  201 {"host": id, "token": TEXT}: the host's own token, to be kept with mode 0600. A name that
          is registered already answers 409 with a sentence; an operator frees it in the admin.

`POST /api/agent/sync/` (header `Authorization: Bearer HOST_TOKEN`) carries the full report up and the
full list of what should run down. It is level-triggered: losing, repeating or delaying one changes
nothing but time. Within one boot only a report with a greater `seq` is taken.
    asks  Report
    gets  200 Desired, at once when `have` differs from the present version, else when there is news or
          `wait_s` is over. 401: the token is not valid (any more). 409: a report not newer than the last one
          that was taken, also where that one came while this call waited: report anew. 426: the protocol is
          too old. 400 names the fields that are wrong; nothing of the report was used.

`PUT /api/agent/instances/ID/log/?offset=N` (same token) appends raw bytes at N.
    gets  200 {"end": M}: the platform now has the bytes up to M. Bytes before the end are not written
          again; a gap answers 409 {"end": M} and the agent goes on from M. An empty body at 0 asks for M.
          Any other 4xx but 401 and 429 refuses this log for good: the agent drops the rest of it.
          After 401, 429 and 5xx it tries again. 413: more than 1 MiB at once, or the log is full. 507: the
          platform's disk is full, nothing was written.

`GET /api/agent/code/DIGEST/` (same token) sends packed code that an instance of this host needs.
    gets  200 and the bytes, whose SHA-256 is DIGEST, in hexadecimal. 404: no instance of this host needs it, or
          it is gone. After 401, 429 and 5xx the agent tries again; any other 4xx fails those that need it.

Report
    {"protocol": 2, "version": "0.1.0", "name": "gpu-7", "machine": MARKS, "seat": MARK,
     "boot": UUID of this agent process, "seq": 1, 2, 3, …,
     "clock": the host's seconds since the epoch, "address": "10.0.0.7", "offers": [KIND, …], "trouble": "",
     "cards": [{"index": 0, "uuid": "…", "gpu_type": "P40", "memory_mib": 22919,
                "state": "ok" | "broken" | "external", "reason": "", "fault": ""}],
     "minutes": [Minute, …], "calls": Calls,
     "instances": [{"id": UUID, "phase": "starting" | "ready" | "running" | "ending" | "gone",
                    "exit_code": null | int, "exit_signal": null | int, "by_itself": null | bool,
                    "detail": "", "cause": "", "commit": "", "log_bytes": int}],
     "have": version of the desired list the agent acts on, "" at first, "wait_s": 0 … 30}

    `name` is what this host is called now: the platform renames it, unless another host has the name. `machine` and
    `seat` say where the agent is (machine.py), so that a copied token is found out: a host has one agent.
    `offers`: kinds of instance that the host can run now: process, container; ceph where it can mount private
    ceph, and then process_ceph, container_ceph for each of its kinds with that; limits where those of plain
    processes hold.
    An `index` stays with its card, whatever becomes of others. `fault`: the name of what took the card out, where that
    lasts until the driver is loaded anew or an operator clears it; "" or absent: none.
    `trouble` says in a sentence what is wrong with the host as a whole, such as a full disk; "" or absent: nothing.
    `gone` is final: no process of the instance is left and its exit record lies on the host's disk.
    `by_itself` is false where the end was ordered before the start command ended, null where nobody can
    know. `exit_code` and `exit_signal` are of the start command, the second where a signal ended it; both
    are null where it never ran (then `detail` says why in a sentence) or nobody can know (`detail` is one
    of the words below). `cause` is one of CAUSES where the host knows more of why it ended than code and
    signal say, else "" or absent. `log_bytes` counts what will be sent of the log; the agent cuts a log,
    with a mark, at a size set for the host. `ready`: everything of it is prepared, and it waits for `go`.
    `commit`: the whole id of the commit that it runs, as soon as that is here, else "" or absent.

Desired
    {"version": TEXT of at most 64 characters, "now": server's seconds,
     "instances": [{"id": UUID, "run": bool, "go": bool, "spec": Spec}], "forget": [UUID, …],
     "notice": what operators should know of this agent, in a sentence, such as that it is old; may be absent,
     "cleared": [NAME, …] of faults of cards that operators took for cured, may be absent}

    `run` false: end it (exit command, TERM, KILL: `grace_s` in all); `spec` may then be null. Whatever is
    on the host and neither in `instances` nor `forget` is to be ended too, and nothing starts while such a
    stray lives. `forget`: its end is recorded by the platform, or the platform knows nothing of it; its
    folder may go once its log is sent. An instance that is to run is started once, ever; one that is not to
    run and never came to the host is reported as gone, so that an order overtaken by its stop ends too.
    What was reported once and is missing from a later report comes with `run` false: it is never run again.
    Secrets stand in the spec's `env`, `code` and `data` only until the instance is reported as ready or running.
    `go`: every member of its gang is ready, so one whose spec says `wait_for_go` is to start its command.

Minute
    {"card": index, "minute": the platform's minutes since the epoch, "use_mean", "use_max": percent, "memory_mean_mib",
     "memory_max_mib", "temperature_max_c", "power_mean_w", "power_max_w", "ecc_corrected", "ecc_uncorrected",
     "outside": most processes from outside, "xids": [int, …]}

    What was measured on a card in a minute that is over; null is what nobody can know. Told as long after its end as
    the host lags (pace.py), and repeated until a report with it was answered. ECC errors count from when the driver was
    loaded or the card reset. Simulated cards have none.

Calls
    {"over_s": seconds, "made": int, "failed": int, "times": int, "longest_s": seconds, "fault": TEXT}

    How the agent's calls went lately, by its clock that never jumps: in the last `over_s` (600 at most, less since its
    start) so many were made, so many of them got no answer, or a 5xx, 429 or none that can be read. Those failed at so
    many times, a time being a row of them up to one that was answered, or that the platform held for a while; for
    `longest_s` at most nothing was answered that was due. `fault` is what was wrong with the last one, "" where none
    failed. It decides nothing but a warning. May be absent.

Spec
    {"label": TEXT for people, "command": TEXT for /bin/sh -c, or null: an idle member that only keeps its
     place, "exit_command": TEXT or "", "grace_s": 30, "env": {NAME: VALUE}, "cards": [index, …],
     "storage": folder of the business below the platform's storage, "task_dir": folder of the task in that,
     "hosts": [{"name", "address", "cards": how many}, …] of the gang in the order of rank, "rank": int,
     "master_port": a port, the same for all members of the gang, "wait_for_go": bool, absent: false,
     "container": Container, or null or absent: plain processes, "limits": Limits of plain processes, may be
     absent, "code": Code, "data": [Data, …], both may be absent, "prepare_s": how long both together may take}

    The exit command runs before an ordered end, of idle members too, not after an end by itself. `storage`
    and `task_dir` are relative paths without `..`; they are created, the platform's storage itself never is.
    The process gets CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES (card uuids where they are real, else
    indexes), for shares of a card what holds it to them (CUDA_MPS_…), TAIJI_STORAGE, TAIJI_TASK_DIR,
    TAIJI_INSTANCE_ID, RANK and NODE_RANK (the member's rank),
    WORLD_SIZE and NNODES (hosts), LOCAL_RANK (0) and LOCAL_WORLD_SIZE (1: one process per host is started),
    TAIJI_CARDS (cards on this host), MASTER_ADDR (of the first host), MASTER_PORT and TAIJI_HOSTFILE (lines
    `address slots=cards`). These win over `env`; below both lie a few variables of the host (PATH, HOME,
    LANG, TZ, …), never the agent's own.

Code
    {"kind": "upload", "digest": SHA-256 in hexadecimal, "files": int, "bytes": int: most of it unpacked}
    {"kind": "git", "url": "https://…", "branch": NAME or "" for the default one, "commit": whole id, its
     beginning or "" for the branch's newest, "token": TEXT or absent, "follow": bool, absent: false,
     "files": int, "bytes": int: most of it with its history, absent or 0: the agent's own limits}

    It is brought into the folder where the command starts, for idle members too. A command of "" is the code's
    own ./start.sh, else ./start.py. `follow`: the member waits until `commit` stands there, which is what the
    first member of the gang reported. What cannot be brought fails the instance with the cause `code` or `code_away`.

Data
    {"kind": "ceph", "addr": "MONITOR:PORT,…", "name": USER, "secret": KEY, "src": PATH, "dst": PATH}

    Mounted at `dst` before the command starts, with the kernel's client or ceph-fuse, for this instance alone;
    unmounted when it is gone. The platform sends it only to a host that offers it. What cannot be mounted fails
    the instance with the cause `data` or `data_away`.

Limits
    {"memory_mib": int, "cpus": float, "pids": int}, 0 or absent: none

    They hold for the command, the exit command and all that these start, together, by a control group. On a host
    that does not offer `limits` some of them do not hold, and the instance runs all the same.

Container
    {"image": NAME, "user": UID:GID or "" for the one that this host runs tasks as, "memory_mib": int,
     "cpus": float, "shm_mib": int, "pids": int, "network": "host" | "bridge" | "none", "read_only": bool,
     "pull_timeout_s": 600, "registry": {"username", "password"} or null}

    All but `image` may be absent; a limit of 0 is none. The platform sends one only to a host that offers
    `container`. An image with a tag other than `latest`, or with a digest, is pulled where it is not there;
    else always. Commands run by the image's /bin/sh, in /taiji/work, as the image's environment says with
    the variables of above over it and none of the host's. The container sees its business's folder of the
    storage, at the path that it has on the host, and no other. `read_only` leaves that, /taiji, /tmp,
    /var/tmp and /run writable. Real cards come by CDI (Podman) or by the NVIDIA runtime (Docker), and are
    seen to be there before the command starts. A signal that ends the command shows as exit code 128 + it.
    Secrets stand in `registry` as long as in `env`.

Protocol 1 grew by `ready`, `go`, `wait_for_go`, `cause`, `trouble`, `container`, `code`, `data`, `commit` and
`limits`.
Each side takes the other without them: an agent that does not know them starts its member at once (code and data
need a new one), and a platform that does not know them never asks to wait. Protocol 2 has `name`, `machine`,
`seat`, `notice`, `fault`, `minutes` and `cleared` besides, and grew by `calls`. The platform serves agents of its own
protocol and of the one before.
"""

PROTOCOL = 2
OLDEST = PROTOCOL - 1  # agents one version back are served, and told so
WAIT_S = 20  # how long a waiting call is held, at most 30

# Folders of the system, at the top of a file system: no data is mounted below them. The keeper runs programs of theirs.
SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}
)

# What `detail` says, word for word, of an instance whose end nobody saw.
KEEPER_LOST = "keeper lost"
HOST_RESTARTED = "host restarted"
HOST_LOST = "host lost"  # said by the platform, not by the agent
POD_LOST = "pod lost"  # said of pods of a Kubernetes cluster

# What `cause` may say. Other words are taken for none: a newer agent may know more of them.
CAUSES = {
    "image": "the container image could not be had or used",
    "code": "the code that the task names cannot be had, by any host",
    "code_away": "the code may be there, but this host could not get it",
    "waited": "it waited in vain for the commit that the first member of its gang chooses",
    "data": "the data that the task names cannot be had, by any host",
    "data_away": "the data may be there, but this host could not get it",
    "oom": "the kernel ended it because memory ran out",
    "maybe_oom": "it was killed, by nobody we know: probably because memory ran out",
    "card": "a card of it failed",
    "place": "its cluster found no place for its pod",
    "operator": "what makes its pods in its cluster took no notice of it",
}
