/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the secret of two processes, or else their user, group and cgroup. scan_byte() reads
 * /proc/PID/environ as a stream, and own_has_cgroup() compares two files as streams. So files of
 * any size need pieces of PIECE bytes only. If own_has() cannot read what the comparison needs, the
 * process counts as another tenant's. The code runs in the tenant's program: the functions allocate
 * no memory, and the caller owns all their state.
 */
#include "hook/own-tenant.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "hook/system.h"

#define KEY "DIVVY_TENANT="
#define PIECE 4096u

/* State of a scan of an environment, byte by byte, for the tenant's secret. */
struct scan {
	size_t at; /* position in the key; from the key's end on: in the value */
	bool is_other;
	size_t n;
	char value[33];
};

/* Returns true at the end of the value. */
static bool scan_byte(struct scan *s, char c)
{
	const size_t key = sizeof(KEY) - 1;

	if (!c && s->at == key && !s->is_other)
		return true;
	if (!c) {
		s->at = 0;
		s->is_other = false;
	} else if (!s->is_other && s->at < key) {
		s->is_other = c != KEY[s->at++];
	} else if (!s->is_other && s->n < sizeof(s->value)) {
		s->value[s->n++] = c;
	}
	return false;
}

/* Returns false if the environment cannot be read, or the secret in it is too long. */
static bool own_read_secret(int dir, char ret[static 33])
{
	_cleanup_close_ int fd = openat(dir, "environ", O_RDONLY | O_CLOEXEC);
	struct scan s = {0};
	char piece[PIECE];
	bool is_found = false;
	ssize_t n = -1;

	while (!is_found && fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0)
		for (ssize_t i = 0; i < n && !is_found; i++)
			is_found = scan_byte(&s, piece[i]);
	if (n < 0 || (is_found && s.n == sizeof(s.value)))
		return false;
	memcpy(ret, s.value, is_found ? s.n : 0);
	ret[is_found ? s.n : 0] = '\0';
	return true;
}

/* Fills the piece from the file, except at its end. Returns the number of bytes, or -1. */
static ssize_t read_piece(int fd, char piece[static PIECE])
{
	size_t n = 0;
	ssize_t got = 1;

	while (n < PIECE && (got = read(fd, piece + n, PIECE - n)) > 0)
		n += (size_t)got;
	return got < 0 ? -1 : (ssize_t)n;
}

/*
 * With cgroups v1, /proc/PID/cgroup has a path for each controller, so the file's size has no
 * useful limit.
 */
static bool own_has_cgroup(int dir)
{
	_cleanup_close_ int own = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int other = openat(dir, "cgroup", O_RDONLY | O_CLOEXEC);
	char a[PIECE], b[PIECE];
	ssize_t n = PIECE;

	if (own < 0 || other < 0)
		return false;
	while (n == PIECE) {
		n = read_piece(own, a);
		if (n < 0 || read_piece(other, b) != n || memcmp(a, b, (size_t)n))
			return false;
	}
	return true;
}

static int open_process(unsigned int pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool own_init(struct own *own)
{
	_cleanup_close_ int dir = open_process((unsigned int)getpid());
	const char *secret = getenv("DIVVY_TENANT");
	struct stat st;

	*own = (struct own){.secret = ""};
	/*
	 * Takes the secret by which the daemon has registered this process. /proc does not show it
	 * if the program has set the variable after its start.
	 */
	if (secret && strlen(secret) < sizeof(own->secret))
		memcpy(own->secret, secret, strlen(secret) + 1);
	if (dir < 0 || fd_stat(dir, &st) < 0)
		return false;
	own->uid = st.st_uid;
	own->gid = st.st_gid;
	own->is_read = true;
	return true;
}

bool own_has(const struct own *own, unsigned int pid)
{
	_cleanup_close_ int dir = -1;
	char secret[sizeof(own->secret)];
	struct stat st;

	if (pid == (unsigned int)getpid())
		return true;
	if (!pid || !own->is_read)
		return false;
	dir = open_process(pid);
	if (dir < 0 || !own_read_secret(dir, secret) || strcmp(own->secret, secret))
		return false;
	return own->secret[0] ||
		(fd_stat(dir, &st) == 0 && own->uid == st.st_uid && own->gid == st.st_gid &&
			own_has_cgroup(dir));
}
