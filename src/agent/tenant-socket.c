/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listens on a tenant socket and gives each accepted connection the id of its tenant. The
 * connection keeps the id instead of a pointer, because the tenant may end before the connection
 * does. door_tenant() compares the peer's cgroup with the tenant's pod for each process that
 * registers. The check passes where the host hides cgroups, but only as long as the daemon has
 * never read a pod's cgroup. All functions run in the loop's thread; the closer closes the socket
 * with its pending connections.
 */
#include "agent/tenant-socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "kubelet/cgroup.h"

#define BACKLOG 256

struct door {
	struct agent *agent;
	uint32_t tenant;
	int fd;
	struct listener listener;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static void on_knock(struct listener *l, int fd)
{
	const struct door *door = l->data;

	client_accept(door->agent, fd, USER_TENANT, door->tenant, NULL);
}

static int listen_at(struct door *door)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memcpy(address.sun_path, door->path, sizeof(door->path));
	unlink(door->path);
	if (bind(door->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		chmod(door->path, 0666) < 0 || listen(door->fd, BACKLOG) < 0)
		return -errno;
	return listener_add(door->agent->loop, &door->listener, door->fd, on_knock);
}

int door_open(struct tenant *t, const char *path, struct door **ret_door, struct error *err)
{
	struct door *door = calloc(1, sizeof(*door));
	int r;

	if (!door)
		return fail(err, ENOMEM, "out of memory");
	door->agent = t->agent;
	door->tenant = t->id;
	door->listener.data = door;
	door->fd = -1;
	r = str_copy(door->path, sizeof(door->path), str_from(path));
	if (r >= 0) {
		door->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		r = door->fd < 0 ? -errno : listen_at(door);
	}
	if (r < 0) {
		door_leave(door);
		return fail_errno(err, -r, "listen on '%s'", path);
	}
	*ret_door = door;
	return 0;
}

void door_leave(struct door *door)
{
	if (!door)
		return;
	listener_remove(&door->listener);
	if (door->fd >= 0)
		closer_close_listener(door->agent->closer, door->fd);
	free(door);
}

void door_close(struct door *door)
{
	if (door)
		unlink(door->path);
	door_leave(door);
}

/* The socket's folder already identifies the pod; the kernel must confirm it. */
static int check_cgroup(const struct conn *c, const struct tenant *t, struct error *err)
{
	struct cgroup_pod found;
	struct error why;
	int r;

	if (!t->pod)
		return 0;
	r = cgroup_read_pod(c->pid, c->agent->pod_cgroups, &found, &why);
	c->agent->has_read_pods |= r >= 0;
	c->agent->is_cgroup_hidden = r == -EXDEV && !c->agent->has_read_pods;
	if (c->agent->is_cgroup_hidden)
		return 0; /* the condition HostNamespaces reports this */
	if (r < 0)
		return fail(err, EACCES,
			"this socket belongs to pod %s/%s, and process %d is in no pod's "
			"cgroup: %s",
			t->pod->space, t->pod->name, (int)c->pid, why.msg);
	if (strcmp(found.uid, t->pod->uid) != 0)
		return fail(err, EACCES,
			"this socket belongs to pod %s/%s, and process %d to pod %s", t->pod->space,
			t->pod->name, (int)c->pid, found.uid);
	return 0;
}

int door_tenant(const struct conn *c, struct tenant **ret_tenant, struct error *err)
{
	struct tenant *t = tenant_by_id(c->agent, c->tenant);
	int r;

	if (!t || t->is_ending)
		return fail(err, ENOENT, "the grant of this container has been revoked");
	r = check_cgroup(c, t, err);
	if (r < 0)
		return r;
	*ret_tenant = t;
	return 0;
}
