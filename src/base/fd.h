/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors. Every one made or received here is close-on-exec from birth. Functions return
 * 0 or a count, or -errno; a ret_ parameter is written on success only. Any thread.
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/str.h"

/* Closes it unless negative and returns -1: `fd = fd_close(fd);`. Preserves errno. */
int fd_close(int fd);
/* All from that number on, in a child that is about to become another program. */
void fd_close_from(int first);

int fd_set_cloexec(int fd, bool on);
int fd_set_nonblock(int fd, bool on);

/*
 * Anonymous shared memory of that size, zeroed and sealable; the name is shown in /proc only.
 * Returns the descriptor, the caller's.
 */
int memfd_new(const char *name, size_t size_bytes);

/*
 * Adds F_SEAL_... seals for good. F_SEAL_FUTURE_WRITE keeps the writable maps made before it, so
 * map first, then seal. memfd_has_seals() is true only when all of them stand.
 */
int memfd_seal(int fd, unsigned int seals);
bool memfd_has_seals(int fd, unsigned int seals);

/* The size of a file or memfd in bytes. */
int64_t fd_size(int fd);

/* A mapping of the caller's: `_cleanup_map_ struct map m = MAP_NONE;`. */
struct map {
	void *p; /* NULL while there is none */
	size_t n;
};
#define MAP_NONE ((struct map){NULL, 0})

/*
 * Maps n bytes from offset 0, shared; PROT_READ, or PROT_READ | PROT_WRITE. -EMSGSIZE when the file
 * is shorter, so that a short file is an error here and no SIGBUS later (seal against shrinking
 * what a peer could cut). The mapping outlives the descriptor.
 */
int map_fd(int fd, size_t n, int prot, struct map *ret_map);
void map_done(struct map *m);
#define _cleanup_map_ _cleanup_(map_done)

/*
 * All n bytes, or an error; goes on after EINTR and short writes. Never raises SIGPIPE on sockets.
 */
int fd_write_all(int fd, const void *p, size_t n);

/* Exactly n bytes; -EPIPE when the end comes before. */
int fd_read_exact(int fd, void *p, size_t n);

/* Appends all until the end; -EMSGSIZE when that is more than the buf's maximum. */
int fd_read_all(int fd, struct buf *b);

/* Appends a whole file, /proc and /sys included; the buf's maximum is the limit. */
int file_read(const char *path, struct buf *b, struct error *err);

/*
 * Replaces the file in one step: readers see the old or the new text, also after a crash. Made in
 * the same folder under a temporary name, synced, renamed. A new file gets that mode, an old one
 * keeps its own. Links are followed; what is no regular file (a terminal, a pipe) is written to.
 */
int file_replace(const char *path, struct str text, mode_t mode, struct error *err);

/* mkdir -p: makes what is missing of the path with that mode; a folder that exists is fine. */
int folder_make(const char *path, mode_t mode, struct error *err);

/* At most this many descriptors go with one message: three pages for each of 16 devices. */
#define FD_PASS_MAX 48

/*
 * One message with descriptors on a unix socket; they stay the caller's. Returns the bytes sent.
 * With n_fds > 0 n must be > 0 too (-EINVAL).
 */
ssize_t fd_send(int sock, const void *p, size_t n, const int *fds, size_t n_fds, int flags);

/*
 * One message with up to FD_PASS_MAX descriptors, which become the caller's. Returns its bytes, 0
 * at the end. A message or a list of descriptors that does not fit is -EMSGSIZE and its descriptors
 * are closed; so are descriptors nobody wants (ret_fds NULL). flags: MSG_DONTWAIT or 0.
 */
struct fd_list {
	int fd[FD_PASS_MAX];
	size_t n;
};
ssize_t fd_recv(int sock, void *p, size_t n, struct fd_list *ret_fds, int flags);

/* Closes those that are left (not -1). */
void fd_list_done(struct fd_list *l);

/*
 * From now on nobody can send descriptors to that Unix socket, nor to what a listening one accepts
 * from connections made from now on. -ENOPROTOOPT before Linux 6.16.
 */
int socket_refuse_rights(int sock);

/* Removes the path that a Unix socket is bound to, if any: nobody answers there any more. */
void socket_unlink(int sock);
#define _cleanup_fd_list_ _cleanup_(fd_list_done)

#endif
