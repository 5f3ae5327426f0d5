/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container with devices on another node has a socket in its slot's folder, where a link listens
 * (src/link/node-link-reach.c). The link shows this container's certificate to the device node;
 * neither certificate nor key is ever in the container. The device node decides about the grant.
 * This node only needs the device node's address, which that node's GPUNode has. divvyd watches
 * that object while the slot is in use.
 */
#include "node/node-remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "node/helper.h"
#include "node/node-files.h"
#include "node/node-identity.h"
#include "node/node-internal.h"
#include "node/node-serve.h"
#include "wire/serve.h"

#define AGAIN_NS (NSEC_PER_SEC / 2)
#define BACKLOG 64

enum remote_state {
	REMOTE_WAITS, /* waits for a certificate, an address, or the time of the next try */
	REMOTE_ASKS,  /* has asked the device node */
	REMOTE_READY,
	REMOTE_REFUSED,
};

struct remote {
	struct node *node;
	struct slot *slot;
	struct tenant_pod pod;
	char server[ASSIGNED_NODE];
	enum remote_state state;
	struct error why; /* what is missing, or why the container was refused; unset while READY */
	/* the container was allowed to start once, so a new link needs no new answer */
	bool was_ready;
	uint64_t again_ns;

	/* the GPUNode of the device node; NULL: this node's own devices */
	struct kube_cache *gpunode;
	struct address at; /* from gpunode; host "": the device node does not serve */
	struct held_identity *held;

	/* set while the slot's files are written, which the container's start awaits */
	struct slot_files *files;
	int listen_fd;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct helper *helper;
};

const struct tenant_pod *remote_pod(const struct remote *remote)
{
	return &remote->pod;
}

bool remote_is_ready(const struct remote *remote)
{
	return remote->state == REMOTE_READY;
}

static bool remote_is_same_node(const struct remote *r)
{
	return !r->gpunode;
}

/* ---- the link ---- */

static void remote_set_waiting(struct remote *remote, uint64_t after_ns)
{
	helper_free(TAKE_PTR(remote->helper));
	remote->state = REMOTE_WAITS;
	remote->again_ns = clock_now_ns() + after_ns;
}

static bool will_pass(int status)
{
	return status == -EAGAIN || status == -ENOSPC || status == -EBUSY || status == -ENOMEM;
}

static void remote_on_packet(void *data, const void *packet, size_t n)
{
	struct remote *remote = data;
	const struct serve_reply *reply = packet;

	if (n != sizeof(*reply) || reply->magic != SERVE_MAGIC ||
		!memchr(reply->text, '\0', sizeof(reply->text)))
		return;
	if (reply->status == 0) {
		remote->state = REMOTE_READY;
		remote->was_ready = true;
		remote->why = (struct error){0};
		node_status_touch(remote->node);
		return;
	}
	fail(&remote->why, reply->status < 0 ? -reply->status : EIO, "%s", reply->text);
	/*
	 * The container may run already. Then the slot stays open, and each program that connects
	 * gets the reason.
	 */
	if (remote->was_ready) {
		remote->state = REMOTE_READY;
		log_warn("slot %s: %s", remote->slot->id, remote->why.msg);
		return;
	}
	remote_set_waiting(remote, AGAIN_NS);
	if (!will_pass(reply->status))
		remote->state = REMOTE_REFUSED;
}

static void remote_on_ended(void *data)
{
	struct remote *remote = data;

	log_warn("slot %s: divvy-remote-far reach exited; restarting it", remote->slot->id);
	fail(&remote->why, EAGAIN, "the link to node %s has closed", remote->server);
	remote_set_waiting(remote, AGAIN_NS);
}

static const char *cgroup_root(const struct agent *agent)
{
	return agent->pod_cgroups ? agent->pod_cgroups : "*";
}

static int start_link(struct remote *remote, struct error *err)
{
	const char *const argv[] = {"reach", remote_is_same_node(remote) ? "" : remote->at.host,
		remote->at.port, remote->server, remote->pod.uid, remote->pod.container,
		remote->pod.space, remote->pod.name, cgroup_root(remote->node->agent), NULL};
	_cleanup_close_ int identity_fd = identity_to_fd(held_identity_get(remote->held));
	struct serve_env env;
	const struct helper_options options = {
		.name = "divvy-remote-far",
		.argv = argv,
		.env = env.list,
		.fds = {remote->listen_fd, -1, identity_fd},
		.n_fds = 3,
		.control_at = 1,
		.said = remote_on_packet,
		.ended = remote_on_ended,
		.data = remote,
	};
	struct helper *helper;
	int r;

	if (identity_fd < 0)
		return fail_errno(err, -identity_fd, "hand over a certificate");
	serve_env_fill(remote->node, &env);
	r = helper_start(remote->node->agent->loop, &options, &helper, err);
	if (r < 0)
		return r;
	/* Frees the former link, which ends. The sessions that it started continue. */
	helper_free(remote->helper);
	remote->helper = helper;
	return 0;
}

/*
 * Starts the link as soon as certificate, address and files are there, or records which of them is
 * missing.
 */
static void remote_try(struct remote *remote)
{
	const char *why;

	if (remote->listen_fd < 0) {
		fail(&remote->why, EAGAIN, "the slot's files are not on the disk yet");
	} else if (!remote_is_same_node(remote) && !kube_cache_is_synced(remote->gpunode)) {
		fail(&remote->why, EAGAIN, "the address of node %s is not known yet",
			remote->server);
	} else if (!remote_is_same_node(remote) && !remote->at.host[0]) {
		fail(&remote->why, EAGAIN, "node %s does not serve its devices to other nodes",
			remote->server);
	} else if (!held_identity_get(remote->held)) {
		why = held_identity_why(remote->held);
		fail(&remote->why, EAGAIN, "its certificate has not been issued yet%s%s",
			why[0] ? ": " : "", why);
	} else if (start_link(remote, &remote->why) < 0) {
		remote->why.code = EAGAIN;
	} else {
		remote->state = remote->was_ready ? REMOTE_READY : REMOTE_ASKS;
		if (!remote->was_ready)
			fail(&remote->why, EAGAIN, "node %s has not answered yet", remote->server);
		return;
	}
	remote->again_ns = clock_now_ns() + AGAIN_NS;
}

static void remote_renew_link(struct remote *remote)
{
	/* The running link's certificate is still valid; the next link uses the new one. */
	if (remote->state == REMOTE_ASKS || remote->state == REMOTE_REFUSED)
		return;
	remote_try(remote);
}

static void on_identity(void *data, struct held_identity *held)
{
	remote_renew_link(data);
}

/* ---- the device node's address ---- */

static int remote_project_object(
	void *data, const struct kube_object *object, void **ret, struct error *err)
{
	const char *address = kube_json_text_at(object->json, "status", "remote", "address", NULL);

	*ret = str_dup(str_from(address ? address : ""));
	return *ret ? 0 : -ENOMEM;
}

static void remote_release_object(void *own)
{
	free(own);
}

static void set_address(struct remote *remote, const char *address)
{
	struct address at = {0};
	struct error err;

	if (address[0] && serve_address_parse(address, &at, &err) < 0)
		log_warn("GPUNode %s: status.remote.address %s", remote->server, err.msg);
	if (!strcmp(at.host, remote->at.host) && at.number == remote->at.number)
		return;
	remote->at = at;
	/*
	 * A node may stop serving for a moment, for example during an update: keep the present
	 * link.
	 */
	if (at.host[0])
		remote_renew_link(remote);
}

static void remote_on_added(void *data, const struct kube_entry *entry)
{
	set_address(data, entry->object);
}

static void remote_on_updated(void *data, const struct kube_entry *entry, void *old)
{
	set_address(data, entry->object);
}

static void remote_on_deleted(void *data, const struct kube_entry *entry)
{
	set_address(data, "");
}

static void remote_on_trouble(void *data, const struct error *err)
{
	log_warn("%s", err->msg);
}

static int watch_server(struct remote *remote, struct error *err)
{
	char selector[ASSIGNED_NODE + 32];
	const struct kube_reflect_options options = {.path = "/apis/divvy.gpu/v1/gpunodes",
		.field_selector = selector,
		.max_pause_ns = 5 * NSEC_PER_SEC};
	const struct kube_cache_handler handler = {.project = remote_project_object,
		.release = remote_release_object,
		.added = remote_on_added,
		.updated = remote_on_updated,
		.deleted = remote_on_deleted,
		.trouble = remote_on_trouble,
		.data = remote};

	snprintf(selector, sizeof(selector), "metadata.name=%s", remote->server);
	return kube_cache_new(remote->node->client, &options, &handler, &remote->gpunode, err);
}

/* ---- the slot ---- */

/* Any process that has the folder mounted may connect: the container, with any user id. */
static int remote_listen_at(struct remote *remote, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	memcpy(address.sun_path, remote->path, sizeof(remote->path));
	unlink(remote->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		chmod(remote->path, 0666) < 0 || listen(fd, BACKLOG) < 0)
		return fail_errno(err, errno, "listen on %s", remote->path);
	remote->listen_fd = TAKE_FD(fd);
	return 0;
}

static void on_files(void *data, int result, const struct error *err)
{
	struct remote *remote = data;
	struct slot *slot = remote->slot;

	remote->files = NULL;
	remote->why = *err;
	if (result >= 0)
		result = remote_listen_at(remote, &remote->why);
	if (result >= 0) {
		remote_try(remote);
		return;
	}
	remote->state = REMOTE_REFUSED;
	if (remote->was_ready) {
		log_warn("slot %s: %s", slot->id, remote->why.msg);
		remote_free(TAKE_PTR(slot->remote));
	}
}

/* Has the disk worker write the slot's files. When they are written, the socket listens. */
static int order_files(struct remote *remote, struct error *err)
{
	char folder[PATH_MAX];
	int r = node_slot_folder(remote->node, remote->slot, folder, sizeof(folder), err);

	if (r < 0)
		return r;
	if ((size_t)snprintf(remote->path, sizeof(remote->path), "%s/" SLOT_REMOTE, folder) >=
		sizeof(remote->path))
		return fail(err, ENAMETOOLONG, "the slot's path is too long");
	remote->slot->is_list_remote = true;
	return node_slot_write_files(
		remote->node, remote->slot, on_files, remote, &remote->files, err);
}

static int remote_make(struct node *node, struct slot *slot, const struct tenant_pod *pod,
	const char *server, struct error *err)
{
	struct identity_name name = {.kind = IDENTITY_OF_TENANT};
	struct remote *remote = calloc(1, sizeof(*remote));
	int r = 0;

	if (!remote)
		return fail(err, ENOMEM, "no memory");
	remote->node = node;
	remote->slot = slot;
	remote->pod = *pod;
	remote->listen_fd = -1;
	snprintf(remote->server, sizeof(remote->server), "%s", server);
	slot->remote = remote;
	if (str_copy(name.uid, sizeof(name.uid), str_from(pod->uid)) < 0 ||
		str_copy(name.container, sizeof(name.container), str_from(pod->container)) < 0)
		r = fail(err, EINVAL, "pod UID '%s' is too long", pod->uid);
	if (r >= 0 && strcmp(server, node->options.name) != 0)
		r = watch_server(remote, err);
	r = r < 0 ? r : order_files(remote, err);
	r = r < 0 ? r : node_need_identities(node, err);
	r = r < 0 ? r
		  : identity_hold(node->identities, &name, on_identity, remote, &remote->held, err);
	if (r < 0)
		remote_free(TAKE_PTR(slot->remote));
	else
		remote_try(remote);
	return r;
}

int remote_open(struct node *node, struct slot *slot, const struct tenant_pod *pod,
	const char *server, struct error *err)
{
	struct remote *remote = slot->remote;
	int r;

	if (remote &&
		(strcmp(remote->pod.uid, pod->uid) != 0 ||
			strcmp(remote->pod.container, pod->container) != 0 ||
			strcmp(remote->server, server) != 0)) {
		remote_free(TAKE_PTR(slot->remote));
		remote = NULL;
	}
	r = remote ? 0 : remote_make(node, slot, pod, server, err);
	if (r < 0)
		return r;
	remote = slot->remote;
	if (remote->state == REMOTE_READY)
		return 0;
	if (remote->state != REMOTE_REFUSED)
		return fail(err, EAGAIN, "%s", remote->why.msg);
	/* Frees the refused object, so that the next call asks the device node again. */
	r = fail(err, EPERM, "%s", remote->why.msg);
	remote_free(TAKE_PTR(slot->remote));
	return r;
}

void remote_leave(struct remote *remote)
{
	if (!remote)
		return;
	slot_files_forget(remote->files);
	helper_free(remote->helper);
	identity_release(remote->held);
	kube_cache_free(remote->gpunode);
	fd_close(remote->listen_fd);
	free(remote);
}

void remote_free(struct remote *remote)
{
	if (remote && remote->listen_fd >= 0)
		unlink(remote->path);
	remote_leave(remote);
}

void remote_tick(struct remote *remote, uint64_t now)
{
	if (remote->state == REMOTE_WAITS && now >= remote->again_ns)
		remote_try(remote);
}

/* ---- after a restart ---- */

static void remote_resume_container(
	struct node *node, const struct podres_container *c, const char *id)
{
	const struct kube_entry *entry = kube_cache_find(node->pods, c->space, c->pod);
	struct slot *slot = node_slot(node, id);
	struct tenant_pod pod = {.uid = ""};
	struct node_assigned g;
	struct error err;

	if (!entry || !slot || slot->tenant || slot->remote || start_has_slot(node, slot) ||
		node_assigned(entry->object, c->name, &g, NULL) < 0 ||
		g.spec.mode != SPEC_MODE_REMOTE || node_is_over(entry->object, c->name))
		return;
	if (str_copy(pod.uid, sizeof(pod.uid), str_from(entry->uid)) < 0 ||
		str_copy(pod.space, sizeof(pod.space), str_from(c->space)) < 0 ||
		str_copy(pod.name, sizeof(pod.name), str_from(c->pod)) < 0 ||
		str_copy(pod.container, sizeof(pod.container), str_from(c->name)) < 0)
		return;
	memcpy(pod.slot, slot->id, sizeof(pod.slot));
	if (remote_make(node, slot, &pod, g.is.remote_node, &err) < 0) {
		log_warn("slot %s: %s", slot->id, err.msg);
		return;
	}
	/* The container runs, so its programs may connect at any time. */
	slot->remote->was_ready = true;
	slot->since_ns = clock_now_ns();
	log_info("slot %s: %s/%s %s still has devices of node %s", slot->id, pod.space, pod.name,
		pod.container, g.is.remote_node);
}

void remote_resume(struct node *node, const struct podres_list *list)
{
	for (size_t i = 0; i < list->n_containers; i++) {
		const struct podres_container *c = &list->containers[i];

		for (size_t k = 0; k < c->n_devices; k++)
			if (!strcmp(c->devices[k].resource, NODE_RESOURCE))
				remote_resume_container(node, c, c->devices[k].id);
	}
}
