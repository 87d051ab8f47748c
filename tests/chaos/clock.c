/* The wall clock of chosen processes, stepped: loaded by LD_PRELOAD into all processes of the system under test.

   WMS_CHAOS_CLOCK names a file with an int32 for each number of a process: the seconds by which its clock is off. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 4194304 /* the kernel's largest pid_max */

static const volatile int32_t *steps = MAP_FAILED;

__attribute__((constructor)) static void open_steps(void) {
    const char *path = getenv("WMS_CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    steps = mmap(NULL, PROCESSES * sizeof *steps, PROT_READ, MAP_SHARED, file, 0);
    close(file);
}

static int32_t step(void) { return steps == MAP_FAILED ? 0 : steps[getpid()]; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
