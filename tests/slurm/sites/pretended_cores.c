/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers for cores that this machine does not have. Preloaded into Slurm's node daemon and into all that a job starts, it
 * records what sched_setaffinity is asked for and says so again to sched_getaffinity; the kernel hears of neither.
 *
 * PRETENDED_CORES is a folder: `all` has the node's CPUs, `job-ID` those that job ID may use, as a control group of a real
 * node would have it, and `process-PID-START` those that a process was bound to. START, the moment at which the process
 * began, tells it from an older one with the same number. A process that nobody bound has what its parent has: a fork
 * keeps the parent's, and a program that starts finds its own file, or its parent's.
 *
 * One mask a process: a thread that binds itself alone is told that this was done. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kBytes = CPU_SETSIZE / 8 };

static char folder[512];
static cpu_set_t all;    /* The node's. */
static cpu_set_t own;    /* Where this process is. */
static cpu_set_t limits; /* Where its job may be. */

static int read_set(const char* path, cpu_set_t* set) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, set, kBytes);
  close(file);
  return size == kBytes;
}

/* Field 4 of /proc/PID/stat, and field 22; 0 if the process is gone. */
static int read_stat(pid_t pid, pid_t* parent, unsigned long long* start) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* after_name = strrchr(text, ')');
  return after_name != NULL && sscanf(after_name + 2, "%*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                                      parent, start) == 2;
}

static int path_of(pid_t pid, char* path, size_t size, pid_t* parent) {
  unsigned long long start;
  if (!read_stat(pid, parent, &start)) return 0;
  snprintf(path, size, "%s/process-%d-%llu", folder, pid, start);
  return 1;
}

static void inherited(pid_t pid, cpu_set_t* set) {
  char path[640];
  pid_t parent;
  while (pid > 1 && path_of(pid, path, sizeof path, &parent)) {
    if (read_set(path, set)) return;
    pid = parent;
  }
  *set = all;
}

static int record(pid_t pid, const cpu_set_t* set) {
  char path[640], begun[700];
  pid_t parent;
  if (!path_of(pid, path, sizeof path, &parent)) {
    errno = ESRCH;
    return -1;
  }
  snprintf(begun, sizeof begun, "%s.%d", path, getpid());
  const int file = open(begun, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return -1;
  const int is_whole = write(file, set, kBytes) == kBytes;
  close(file);
  return is_whole && rename(begun, path) == 0 ? 0 : -1;
}

__attribute__((constructor)) static void begin(void) {
  const char* given = getenv("PRETENDED_CORES");
  const char* job = getenv("SLURM_JOB_ID");
  char path[640];
  if (given == NULL || strlen(given) >= sizeof folder) return;
  snprintf(path, sizeof path, "%s/all", given);
  if (!read_set(path, &all)) return;
  strcpy(folder, given);
  inherited(getpid(), &own);
  snprintf(path, sizeof path, "%s/job-%s", folder, job == NULL ? "" : job);
  if (job == NULL || !read_set(path, &limits)) memset(&limits, 0xff, sizeof limits);
}

static int is_pretended(void) { return folder[0] != '\0'; }

static int answer(pid_t pid, size_t size, cpu_set_t* set) {
  cpu_set_t found = own;
  for (size_t cpu = size * 8; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) { /* As the kernel: a mask that has no room for the node's CPUs is an error. */
      errno = EINVAL;
      return -1;
    }
  }
  if (pid != 0 && pid != getpid()) inherited(pid, &found);
  CPU_AND(&found, &found, &limits);
  if (CPU_COUNT(&found) == 0) found = limits; /* As the kernel does with a mask that a control group takes away. */
  memset(set, 0, size);
  memcpy(set, &found, size < kBytes ? size : kBytes);
  return 0;
}

static int bind_to(pid_t pid, size_t size, const cpu_set_t* set) {
  cpu_set_t wanted;
  memset(&wanted, 0, sizeof wanted);
  memcpy(&wanted, set, size < kBytes ? size : kBytes);
  CPU_AND(&wanted, &wanted, &limits);
  CPU_AND(&wanted, &wanted, &all);
  if (CPU_COUNT(&wanted) == 0) {
    errno = EINVAL;
    return -1;
  }
  if (pid == 0 && syscall(SYS_gettid) != getpid()) return 0;
  if (pid == 0 || pid == getpid()) own = wanted;
  return record(pid == 0 ? getpid() : pid, &wanted);
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t* set) {
  if (is_pretended()) return answer(pid, size, set);
  return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t* set) {
  if (is_pretended()) return bind_to(pid, size, set);
  return (int)syscall(SYS_sched_setaffinity, pid, size, set);
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t* set) {
  (void)thread;
  return sched_getaffinity(0, size, set) == 0 ? 0 : errno;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t* set) {
  (void)thread;
  (void)size;
  (void)set;
  return 0;
}
