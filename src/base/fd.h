/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors. Every descriptor that this file creates or receives is close-on-exec from the
 * start. Functions return 0 or a count, or -errno; a ret_ parameter is written only on success. Any
 * thread.
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

/* Closes fd unless negative and returns -1: `fd = fd_close(fd);`. Preserves errno. */
int fd_close(int fd);
/* Closes every descriptor from `first` on: for a child that is about to exec. */
void fd_close_from(int first);

int fd_set_cloexec(int fd, bool on);
int fd_set_nonblock(int fd, bool on);

/*
 * Creates zeroed, sealable, anonymous shared memory of that size. Returns the descriptor, which the
 * caller owns. /proc shows the name.
 */
int memfd_new(const char *name, size_t size_bytes);

/*
 * memfd_seal() adds seals (F_SEAL_...) that cannot be removed. F_SEAL_FUTURE_WRITE keeps writable
 * mappings that exist already: map first, then seal. memfd_has_seals() is true if all given seals
 * are set.
 */
int memfd_seal(int fd, unsigned int seals);
bool memfd_has_seals(int fd, unsigned int seals);

/* The size of a file or memfd in bytes. */
int64_t fd_size(int fd);

/* A mapping that the caller owns: `_cleanup_map_ struct map m = MAP_NONE;`. */
struct map {
	void *p; /* NULL: nothing is mapped */
	size_t n;
};
#define MAP_NONE ((struct map){NULL, 0})

/*
 * Maps n bytes from offset 0, shared, with PROT_READ or PROT_READ | PROT_WRITE. Returns -EMSGSIZE
 * if the file is shorter, so that a short file does not raise SIGBUS later. A peer can still shrink
 * a file that is not sealed against it. The mapping outlives the descriptor.
 */
int map_fd(int fd, size_t n, int prot, struct map *ret_map);
void map_done(struct map *m);
#define _cleanup_map_ _cleanup_(map_done)

/*
 * Writes all n bytes or returns an error; continues after EINTR and short writes. Never raises
 * SIGPIPE on sockets.
 */
int fd_write_all(int fd, const void *p, size_t n);

/* Reads exactly n bytes; -EPIPE if the file ends earlier. */
int fd_read_exact(int fd, void *p, size_t n);

/* Appends everything up to the end of the file; -EMSGSIZE if that exceeds the buf's maximum. */
int fd_read_all(int fd, struct buf *b);

/* Appends a whole file, also from /proc and /sys; -EMSGSIZE if that exceeds the buf's maximum. */
int file_read(const char *path, struct buf *b, struct error *err);

/*
 * Replaces a file atomically: readers see the old or the new text, also after a crash. Writes a
 * temporary file in the same folder, syncs it and renames it. A new file gets `mode`, an existing
 * file keeps its own. Follows links. Writes directly to a target that is not a regular file, such
 * as a terminal or a pipe.
 */
int file_replace(const char *path, struct str text, mode_t mode, struct error *err);

/*
 * Removes the temporary files that file_replace() of killed processes has left in the folder, as
 * far as it can. A folder that does not exist has none. Blocks on the disk.
 */
void folder_clear_temporary(const char *path);

/* As mkdir -p: makes the missing folders of the path with that mode. Returns 0 or -errno. */
int folder_make(const char *path, mode_t mode, struct error *err);

/* At most this many descriptors go with one message: three pages for each of 16 devices. */
#define FD_PASS_MAX 48

/*
 * Sends one message with descriptors on a unix socket; the descriptors stay the caller's. Returns
 * the number of bytes sent; -EINVAL if n is 0 and n_fds is not. The kernel counts the descriptors
 * in unreceived messages of a user, and any program of that user can use up the number. Waits up to
 * 10 s for the end of such a shortage; with MSG_DONTWAIT returns -ETOOMANYREFS at once.
 */
ssize_t fd_send(int sock, const void *p, size_t n, const int *fds, size_t n_fds, int flags);

/*
 * Receives one message with up to FD_PASS_MAX descriptors, which the caller then owns. Returns the
 * number of bytes, 0 at the end. Returns -EMSGSIZE, and closes the descriptors, if the message or
 * the list does not fit, or if ret_fds is NULL and descriptors came. flags: MSG_DONTWAIT or 0.
 */
struct fd_list {
	int fd[FD_PASS_MAX];
	size_t n;
};
ssize_t fd_recv(int sock, void *p, size_t n, struct fd_list *ret_fds, int flags);

/* Closes the descriptors of the list; an entry that the caller has set to -1 is skipped. */
void fd_list_done(struct fd_list *l);

/*
 * Forbids peers to send descriptors to this unix socket. Connections that a listening socket
 * accepts from now on inherit the ban. -ENOPROTOOPT before Linux 6.16.
 */
int socket_refuse_rights(int sock);

/* Removes the path that a unix socket is bound to, if it has one. */
void socket_unlink(int sock);
#define _cleanup_fd_list_ _cleanup_(fd_list_done)

#endif
