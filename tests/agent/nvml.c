/* A stand-in for libnvidia-ml.so.1: each call is answered from the file $TAIJI_TEST_NVML/state, which a test may
 * change at any time. Its lines are `KEY VALUE`, with keys such as `count`, `0.uuid` (of card 0) and `0/1.uuid` (of
 * its slice 1). The value `!15` is error 15, `~` hangs for ever, and what has no line is not supported; to count the
 * cards takes `slow_ms`. Xid events are lines `GPU PART XID` at the end of $TAIJI_TEST_NVML/events; PART is -1 for the
 * whole card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, NOT_FOUND = 6 };
#define SLICES 100 /* a handle is 1 + 100 * card, and the place of the slice + 1 more */

static FILE *open_file(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("TAIJI_TEST_NVML"), name);
    return fopen(path, "r");
}

static int look_up(const char *key, char *value, unsigned size) {
    char line[4096];
    FILE *file = open_file("state");
    size_t length = strlen(key);
    int found = NOT_SUPPORTED;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, key, length) || line[length] != ' ') continue;
        if (line[length + 1] == '~') for (;;) pause();
        found = line[length + 1] == '!' ? atoi(line + length + 2) : SUCCESS;
        snprintf(value, size, "%s", line + length + 1);
    }
    if (file) fclose(file);
    return found;
}

static int text_of(void *handle, const char *name, char *value, unsigned size) {
    char key[256];
    long number = (long)handle - 1;
    if (number % SLICES)
        snprintf(key, sizeof key, "%ld/%ld.%s", number / SLICES, number % SLICES - 1, name);
    else
        snprintf(key, sizeof key, "%ld.%s", number / SLICES, name);
    return look_up(key, value, size);
}

static int number_of(void *handle, const char *name, unsigned long long *value) {
    char text[256];
    int code = text_of(handle, name, text, sizeof text);
    if (code == SUCCESS) *value = strtoull(text, 0, 10);
    return code;
}

static int unsigned_of(void *handle, const char *name, unsigned *value) {
    unsigned long long found = 0;
    int code = number_of(handle, name, &found);
    if (code == SUCCESS) *value = (unsigned)found;
    return code;
}

static int named(const char *name) {
    char text[256];
    int code = look_up(name, text, sizeof text);
    return code == NOT_SUPPORTED ? SUCCESS : code;
}

int nvmlInitWithFlags(unsigned flags) { return named("init"); }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { return look_up("driver", text, size); }

int nvmlDeviceGetCount_v2(unsigned *count) {
    char text[256];
    int code;
    if (look_up("slow_ms", text, sizeof text) == SUCCESS) usleep(atoi(text) * 1000);
    code = look_up("count", text, sizeof text);
    *count = code == SUCCESS ? (unsigned)atoi(text) : 0;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    char key[64];
    *handle = (void *)(long)(1 + SLICES * index);
    snprintf(key, sizeof key, "%u.handle", index);
    return named(key);
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) { return text_of(handle, "uuid", text, size); }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { return text_of(handle, "name", text, size); }

struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    unsigned long long total = 0, used = 0;
    int code = number_of(handle, "memory_mib", &total);
    number_of(handle, "used_mib", &used);
    memory->total = total << 20;
    memory->used = used << 20;
    memory->free = memory->total - memory->used;
    return code;
}

struct use { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct use *use) { return unsigned_of(handle, "use", &use->gpu); }
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *value) {
    return unsigned_of(handle, "temperature_c", value);
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *value) { return unsigned_of(handle, "power_mw", value); }
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *value) {
    return number_of(handle, kind ? "ecc_uncorrected" : "ecc_corrected", value);
}

struct process_v2 { unsigned pid; unsigned long long used; unsigned part, compute; };
int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, struct process_v2 *found) {
    char text[4096];
    unsigned number = 0;
    int code = text_of(handle, "pids", text, sizeof text);
    if (code != SUCCESS) return code;
    for (char *word = strtok(text, ","); word; word = strtok(0, ","), number++) {
        if (number >= *count) continue;
        memset(&found[number], 0, sizeof found[number]);
        found[number].pid = (unsigned)atoi(word);
    }
    code = number > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = number;
    return code;
}

struct event { void *device; unsigned long long type, data; unsigned part, compute; };
static long events_seen;
int nvmlEventSetCreate(void **set) {
    FILE *file = open_file("events");
    *set = &events_seen;
    events_seen = 0;
    if (file) {
        fseek(file, 0, SEEK_END);
        events_seen = ftell(file);
        fclose(file);
    }
    return named("events");
}
int nvmlDeviceGetSupportedEventTypes(void *handle, unsigned long long *types) { return *types = 0xff, SUCCESS; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) { return SUCCESS; }
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
    FILE *file = open_file("events");
    int gpu, part, xid, code = TIMEOUT;
    if (!file) return TIMEOUT;
    fseek(file, events_seen, SEEK_SET);
    if (fscanf(file, "%d %d %d\n", &gpu, &part, &xid) == 3) {
        memset(event, 0, sizeof *event);
        event->device = (void *)(long)(1 + SLICES * gpu);
        event->type = 8;
        event->data = xid;
        event->part = event->compute = part;
        events_seen = ftell(file);
        code = SUCCESS;
    }
    fclose(file);
    return code;
}

#ifndef OLD /* what drivers of some years ago did not have */
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process_v2 *found) {
    return nvmlDeviceGetComputeRunningProcesses_v2(handle, count, found);
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *corrected, unsigned *not_corrected, unsigned *pending,
                              unsigned *failed) {
    *corrected = *not_corrected = *pending = 0;
    return unsigned_of(handle, "remap_failed", failed);
}
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *next) { return unsigned_of(handle, "mig", now); }
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) { return *count = 7, SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned place, void **part) {
    char uuid[256];
    *part = (void *)((long)handle + place + 1);
    return text_of(*part, "uuid", uuid, sizeof uuid) == NOT_SUPPORTED ? NOT_FOUND : SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *part) { return unsigned_of(handle, "part", part); }

struct shape { unsigned unused[6], graphics, computes; unsigned long long memory_mib; };
int nvmlDeviceGetAttributes_v2(void *handle, struct shape *shape) {
    unsigned_of(handle, "graphics", &shape->graphics);
    unsigned_of(handle, "computes", &shape->computes);
    return number_of(handle, "memory_mib", &shape->memory_mib);
}
#endif
