/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listens on a tenant socket and gives each accepted connection the id of its tenant. The
 * connection keeps the id instead of a pointer, because the tenant may end before the connection
 * does. tenant_socket_tenant() compares the peer's cgroup with the tenant's pod for each process
 * that registers. The check passes where the host hides cgroups, but only as long as the daemon has
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

struct tenant_socket {
	struct agent *agent;
	uint32_t tenant;
	int fd;
	struct listener listener;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static void tenant_socket_on_connect(struct listener *l, int fd)
{
	const struct tenant_socket *ts = l->data;

	client_accept(ts->agent, fd, USER_TENANT, ts->tenant, NULL);
}

static int tenant_socket_listen(struct tenant_socket *ts)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memcpy(address.sun_path, ts->path, sizeof(ts->path));
	unlink(ts->path);
	if (bind(ts->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		chmod(ts->path, 0666) < 0 || listen(ts->fd, BACKLOG) < 0)
		return -errno;
	return listener_add(ts->agent->loop, &ts->listener, ts->fd, tenant_socket_on_connect);
}

int tenant_socket_open(
	struct tenant *t, const char *path, struct tenant_socket **ret_socket, struct error *err)
{
	struct tenant_socket *ts = calloc(1, sizeof(*ts));
	int r;

	if (!ts)
		return fail(err, ENOMEM, "out of memory");
	ts->agent = t->agent;
	ts->tenant = t->id;
	ts->listener.data = ts;
	ts->fd = -1;
	r = str_copy(ts->path, sizeof(ts->path), str_from(path));
	if (r >= 0) {
		ts->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		r = ts->fd < 0 ? -errno : tenant_socket_listen(ts);
	}
	if (r < 0) {
		tenant_socket_leave(ts);
		return fail_errno(err, -r, "listen on '%s'", path);
	}
	*ret_socket = ts;
	return 0;
}

void tenant_socket_leave(struct tenant_socket *ts)
{
	if (!ts)
		return;
	listener_remove(&ts->listener);
	if (ts->fd >= 0)
		closer_close_listener(ts->agent->closer, ts->fd);
	free(ts);
}

void tenant_socket_close(struct tenant_socket *ts)
{
	if (ts)
		unlink(ts->path);
	tenant_socket_leave(ts);
}

/* The socket's folder identifies the pod. The process's cgroup must confirm the pod. */
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
		return 0; /* the node's condition HostNamespaces reports hidden cgroups */
	if (r < 0)
		return fail(err, EACCES,
			"this socket belongs to pod %s/%s, and process %d is in no pod's "
			"cgroup: %s",
			t->pod->space, t->pod->name, (int)c->pid, why.msg);
	if (strcmp(found.uid, t->pod->uid) != 0 &&
		!(c->agent->may_share &&
			c->agent->may_share(c->agent->may_share_data, t, found.uid)))
		return fail(err, EACCES,
			"this socket belongs to pod %s/%s, and process %d to pod %s", t->pod->space,
			t->pod->name, (int)c->pid, found.uid);
	return 0;
}

int tenant_socket_tenant(const struct conn *c, struct tenant **ret_tenant, struct error *err)
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
