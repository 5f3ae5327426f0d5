/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of this node for pods of other nodes. A link (src/link/node-link-serve.c) learns from the
 * client's certificate which container it serves, and asks this daemon for the container's grant.
 * The answer is a tenant like any other pod's, in a slot that the kubelet is not offered. Each
 * served pod has a watch of its own by name: the cost grows with the node's tenants, not with the
 * cluster's pods.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/device.h"
#include "base/fd.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/parse.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "node/helper.h"
#include "node/node-internal.h"
#include "node/node-peers.h"
#include "node/node-serve.h"
#include "wire/serve.h"

#define SERVED_MAX 1024u    /* pods at a time, including those without a grant */
#define SERVINGS_MAX 4096u  /* links at a time */
#define SERVINGS_EACH 1024u /* links of one container */
#define SERVED_IDLE_NS (30 * NSEC_PER_SEC)
#define AGAIN_NS NSEC_PER_SEC
#define BACKLOG 256
/*
 * Begins a range of user ids that no system assigns to users. The worker of the first served slot
 * has this id.
 */
#define USER_FIRST 0x7ff00000u

/* A pod of another node that has or requests devices of this node. */
struct served {
	LIST_ENTRY(served) link;
	struct node *node;
	char space[64], name[254], uid[64];
	struct kube_cache *pod; /* watches only this pod, while it has that uid */
	uint64_t asked_ns;
};

/*
 * A connection of a link. The link asks for a container's grant, on behalf of one process of the
 * container, or for permission to measure the bandwidth.
 */
struct serving {
	LIST_ENTRY(serving) link;
	struct node *node;
	int fd;
	struct loop_io io;
	bool is_dead, has_asked;
	bool is_transfer; /* has no tenant: another node measures the bandwidth */
	uint32_t tenant;  /* the tenant's id; 0: the link waits for the answer */
	struct serve_ask ask;
	struct serve_numbers numbers, before; /* present values, and those of a second ago */
	uint64_t said_ns;
};

struct serve {
	struct node *node;
	struct address at;
	char address[ADDRESS_TEXT]; /* the address that GPUNode.status gives to other nodes */
	int network_fd, daemon_fd;  /* -1: not listening */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct listener listener;
	struct helper *helper; /* serves other nodes over the network; NULL: not running */
	int identity_fd;       /* memfd with the helper's certificate */
	uint64_t again_ns;
	LIST_HEAD(, served) pods;
	LIST_HEAD(, serving) links;
	uint32_t n_links;
};

/* ---- pods ---- */

static int serve_project_pod(
	void *data, const struct kube_object *object, void **ret, struct error *err)
{
	const struct served *served = data;
	const char *uid = kube_json_text_at(object->json, "metadata", "uid", NULL);

	if (!uid || strcmp(uid, served->uid) != 0)
		return -ENOENT;
	*ret = json_incref(object->json);
	return 0;
}

static void serve_release_pod(void *own)
{
	json_decref(own);
}

static void serve_on_added(void *data, const struct kube_entry *entry)
{
	struct served *served = data;

	node_served_changed(served->node, entry);
}

static void serve_on_updated(void *data, const struct kube_entry *entry, void *old)
{
	serve_on_added(data, entry);
}

static void serve_on_deleted(void *data, const struct kube_entry *entry)
{
	struct served *served = data;

	node_served_removed(served->node, served->uid);
}

static void serve_on_synced(void *data)
{
	struct served *served = data;

	if (!kube_cache_count(served->pod))
		node_served_removed(served->node, served->uid);
}

static void serve_on_trouble(void *data, const struct error *err)
{
	const struct served *served = data;

	log_warn("pod %s/%s: %s", served->space, served->name, err->msg);
}

static struct served *find_served(const struct serve *serve, const char *uid)
{
	struct served *served;

	if (!serve)
		return NULL;
	LIST_FOREACH(served, &serve->pods, link)
		if (!strcmp(served->uid, uid))
			return served;
	return NULL;
}

static void served_free(struct served *served)
{
	LIST_REMOVE(served, link);
	kube_cache_free(served->pod);
	free(served);
}

static int watch_pod(struct serve *serve, const char *space, const char *name, const char *uid,
	struct served **ret, struct error *err)
{
	struct served *served, *one;
	char path[128], selector[300];
	const struct kube_reflect_options options = {
		.path = path, .field_selector = selector, .max_pause_ns = 5 * NSEC_PER_SEC};
	struct kube_cache_handler handler = {.project = serve_project_pod,
		.release = serve_release_pod,
		.added = serve_on_added,
		.updated = serve_on_updated,
		.deleted = serve_on_deleted,
		.synced = serve_on_synced,
		.trouble = serve_on_trouble};
	_cleanup_buf_ struct buf whole = BUF_INIT(512);
	uint32_t n = 0;
	int r;

	LIST_FOREACH(one, &serve->pods, link)
		n++;
	if (n >= SERVED_MAX)
		return fail(err, EAGAIN, "%u pods are served or asked for already", n);
	/* The other node sent these names: checks that they can be part of a path. */
	r = kube_path(&whole, &(struct kube_target){"v1", "pods", space, name, NULL}, err);
	if (r < 0)
		return r;
	served = calloc(1, sizeof(*served));
	if (!served)
		return fail(err, ENOMEM, "no memory");
	served->node = serve->node;
	snprintf(served->space, sizeof(served->space), "%s", space);
	snprintf(served->name, sizeof(served->name), "%s", name);
	snprintf(served->uid, sizeof(served->uid), "%s", uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods", space);
	snprintf(selector, sizeof(selector), "metadata.name=%s", name);
	handler.data = served;
	LIST_INSERT_HEAD(&serve->pods, served, link);
	r = kube_cache_new(serve->node->client, &options, &handler, &served->pod, err);
	if (r < 0) {
		served_free(served);
		return r;
	}
	*ret = served;
	return 0;
}

const json_t *serve_pod(const struct node *node, const char *uid)
{
	const struct served *served = find_served(node->serve, uid);
	const struct kube_entry *entry = served ? kube_cache_find_uid(served->pod, uid) : NULL;

	return entry ? entry->object : NULL;
}

int serve_find_pod(struct node *node, const struct tenant_pod *pod,
	const struct kube_entry **ret_entry, struct error *err)
{
	struct served *served = find_served(node->serve, pod->uid);
	const struct kube_entry *entry = served ? kube_cache_find_uid(served->pod, pod->uid) : NULL;

	if (!entry && (!served || !kube_cache_is_synced(served->pod)))
		return fail(err, EAGAIN, "pod %s/%s is not known yet", pod->space, pod->name);
	if (!entry)
		return fail(err, EACCES,
			"there is no pod %s/%s of UID %s, which the certificate names", pod->space,
			pod->name, pod->uid);
	served->asked_ns = clock_now_ns();
	*ret_entry = entry;
	return 0;
}

/* ---- links ---- */

static void serving_end(struct serving *link)
{
	if (link->is_dead)
		return;
	link->is_dead = true;
	if (link->is_transfer)
		node_peers_transfer_ends(link->node);
	loop_remove_io(&link->io);
	link->fd = fd_close(link->fd);
}

static bool serve_is_for_pod(const struct serving *link, const struct tenant_pod *pod)
{
	return !link->is_dead && tenant_pod_is(pod, link->ask.uid, link->ask.container);
}

/*
 * Returns one bit for the number of each device file. 0: a number is unknown, or a device is a MIG
 * instance, which has device files of its own.
 */
static uint64_t minors_of(const struct tenant *t)
{
	uint64_t minors = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct nvml_info *info = &t->devices[i].device->info;

		if (info->is_mig || info->minor < 0 || info->minor >= 64)
			return 0;
		minors |= UINT64_C(1) << info->minor;
	}
	return minors;
}

static void serve_answer_link(struct serving *link, const struct tenant *t, const struct error *why)
{
	struct serve_answer a = {.magic = SERVE_MAGIC};
	char secret[TENANT_SECRET_TEXT];

	if (t) {
		a.user = t->uid;
		a.minors = minors_of(t);
		tenant_secret_format(t, secret);
		memcpy(a.secret, secret, sizeof(secret));
		explicit_bzero(secret, sizeof(secret));
		link->tenant = t->id;
	} else {
		a.status = why->code ? -why->code : -EIO;
		snprintf(a.reason, sizeof(a.reason), "%s", why->msg);
	}
	if (send(link->fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 || !t)
		serving_end(link);
	explicit_bzero(&a, sizeof(a));
}

void serve_answer_all(struct node *node, const struct tenant_pod *pod, const struct tenant *t,
	const struct error *why)
{
	struct serving *link;

	LIST_FOREACH(link, &node->serve->links, link)
		if (serve_is_for_pod(link, pod) && link->has_asked && !link->tenant)
			serve_answer_link(link, t, why);
}

void serve_tenant_ends(struct node *node, const struct tenant *t)
{
	struct serving *link;

	if (!node->serve)
		return;
	LIST_FOREACH(link, &node->serve->links, link)
		if (link->tenant == t->id)
			serving_end(link);
}

static struct slot *find_slot(struct node *node, const struct serve_ask *ask)
{
	for (uint32_t i = node->n_offered; i < node->n_slots; i++) {
		const struct tenant *t = node_tenant(node, &node->slots[i]);

		if (t && tenant_pod_is(t->pod, ask->uid, ask->container))
			return &node->slots[i];
	}
	return NULL;
}

static struct slot *serve_free_slot(struct node *node)
{
	for (uint32_t i = node->n_offered; i < node->n_slots; i++)
		if (!node->slots[i].tenant && !start_has_slot(node, &node->slots[i]))
			return &node->slots[i];
	return NULL;
}

static uint32_t count_links(const struct serve *serve, const struct serve_ask *ask)
{
	const struct serving *link;
	uint32_t n = 0;

	LIST_FOREACH(link, &serve->links, link)
		n += !link->is_dead && !strcmp(link->ask.uid, ask->uid) &&
			!strcmp(link->ask.container, ask->container);
	return n;
}

/*
 * Answers with the existing tenant. If there is none, begins a start, and the end of the start
 * sends the answer.
 */
static int take_ask(struct serving *link, struct error *err)
{
	struct node *node = link->node;
	const struct serve_ask *ask = &link->ask;
	struct slot *slot = find_slot(node, ask);
	struct served *served = find_served(node->serve, ask->uid);
	struct tenant_pod pod = {.uid = ""};
	int r;

	if (count_links(node->serve, ask) > SERVINGS_EACH)
		return fail(err, EUSERS, "a container has %u links at most", SERVINGS_EACH);
	if (slot && !slot->is_over) {
		serve_answer_link(link, node_tenant(node, slot), NULL);
		return 0;
	}
	if (slot)
		return fail(err, ESTALE, "the container has exited");
	if (start_is_asked(node, ask->uid, ask->container))
		return 0;
	r = served ? 0 : watch_pod(node->serve, ask->space, ask->pod, ask->uid, &served, err);
	if (r < 0)
		return r;
	served->asked_ns = clock_now_ns();
	slot = serve_free_slot(node);
	if (!slot)
		return fail(err, EAGAIN, "no free slot for pods of other nodes");
	memcpy(pod.uid, ask->uid, sizeof(pod.uid));
	snprintf(pod.space, sizeof(pod.space), "%s", served->space);
	snprintf(pod.name, sizeof(pod.name), "%s", served->name);
	memcpy(pod.container, ask->container, sizeof(pod.container));
	return start_serve(node, slot, &pod, err);
}

static void take_transfer(struct serving *link)
{
	struct serve_answer may = {.magic = SERVE_MAGIC};
	struct error err = {0};

	if (node_peers_transfer_begins(link->node, &err) < 0) {
		serve_answer_link(link, NULL, &err);
		return;
	}
	link->is_transfer = true;
	if (send(link->fd, &may, sizeof(may), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		serving_end(link);
}

static bool serve_is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static void serve_on_packet(struct serving *link, const void *packet, size_t n)
{
	struct serve_ask *ask = &link->ask;
	struct error err = {0};

	memcpy(ask, packet, MIN(n, sizeof(*ask)));
	if (n == sizeof(*ask) && ask->magic == SERVE_MAGIC && ask->what == SERVE_TRANSFER) {
		link->has_asked = true;
		memset(ask, 0, sizeof(*ask));
		take_transfer(link);
		return;
	}
	if (n != sizeof(*ask) || ask->magic != SERVE_MAGIC ||
		!serve_is_terminated(ask->uid, sizeof(ask->uid)) ||
		!serve_is_terminated(ask->container, sizeof(ask->container)) ||
		!serve_is_terminated(ask->space, sizeof(ask->space)) ||
		!serve_is_terminated(ask->pod, sizeof(ask->pod)) ||
		!serve_is_terminated(ask->peer, sizeof(ask->peer)) || !ask->uid[0] ||
		!ask->container[0]) {
		log_warn("a link has sent a malformed request; closing its connection");
		serving_end(link);
		return;
	}
	link->has_asked = true;
	if (take_ask(link, &err) < 0) {
		log_info("pod %s, container %s, of %s: %s", ask->uid, ask->container, ask->peer,
			err.msg);
		serve_answer_link(link, NULL, &err);
	}
}

static void on_link(struct loop_io *io, uint32_t events)
{
	struct serving *link = io->data;
	_Alignas(8) char packet[1024];
	const ssize_t n = recv(link->fd, packet, sizeof(packet), MSG_DONTWAIT);
	const struct serve_numbers *numbers = (const struct serve_numbers *)packet;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		serving_end(link);
	else if (!link->has_asked)
		serve_on_packet(link, packet, (size_t)n);
	else if (n == sizeof(*numbers) && numbers->magic == SERVE_MAGIC) {
		link->before = link->said_ns ? link->numbers : *numbers;
		link->numbers = *numbers;
		link->said_ns = clock_now_ns();
	}
}

static void serve_on_connect(struct listener *l, int fd)
{
	struct serve *serve = l->data;
	struct serving *link = NULL;
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);

	if (serve->n_links < SERVINGS_MAX &&
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid())
		link = calloc(1, sizeof(*link));
	if (!link) {
		close(fd);
		return;
	}
	link->node = serve->node;
	link->fd = fd;
	link->io.data = link;
	LIST_INSERT_HEAD(&serve->links, link, link);
	serve->n_links++;
	if (loop_add_io(serve->node->agent->loop, &link->io, fd, EPOLLIN, on_link) < 0)
		serving_end(link);
}

static void serve_reap_tenants(struct serve *serve)
{
	struct serving *link = LIST_FIRST(&serve->links), *next;

	for (; link; link = next) {
		next = LIST_NEXT(link, link);
		if (link->tenant && !tenant_by_id(link->node->agent, link->tenant))
			serving_end(link);
		if (!link->is_dead)
			continue;
		LIST_REMOVE(link, link);
		serve->n_links--;
		free(link);
	}
}

/* ---- pods of lost nodes ---- */

bool serve_is_left_behind(const json_t *pod, uint32_t n_processes, uint64_t real_ns)
{
	const char *until = kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL);
	uint64_t until_ns;

	return until && !n_processes && kube_time_parse(str_from(until), &until_ns) == 0 &&
		clock_since_ns(real_ns, until_ns) > SERVE_LEFT_NS;
}

/* ---- reports ---- */

static void serve_report_reach(struct serve *serve, struct tenant *t, uint64_t now)
{
	struct remote_reach reach = {.said_ns = now};
	const struct serving *link;
	uint64_t rtt = 0;

	LIST_FOREACH(link, &serve->links, link) {
		if (link->tenant != t->id || link->is_dead || !link->said_ns)
			continue;
		reach.processes++;
		rtt += link->numbers.rtt_us;
		reach.received_per_s += link->numbers.received - link->before.received;
		reach.sent_per_s += link->numbers.sent - link->before.sent;
		snprintf(reach.peer, sizeof(reach.peer), "%s", link->ask.peer);
	}
	if (!reach.processes || !reach.peer[0])
		return;
	reach.rtt_us = rtt / reach.processes;
	t->remote = reach;
}

/* ---- helpers ---- */

uint32_t serve_user(const struct node *node, uint32_t slot)
{
	return USER_FIRST + (slot - node->n_offered);
}

void serve_env_fill(const struct node *node, struct serve_env *ret)
{
	const struct device_set *set = node->agent->devices;
	const size_t size = sizeof(ret->text[0]);
	size_t n = 0;

	snprintf(ret->text[n++], size, SERVE_ENV "=%s/" SERVE_SOCKET, node->agent->runtime_dir);
	snprintf(ret->text[n++], size, "DIVVY_SOCKET=%s/divvyd.sock", node->agent->programs_dir);
	snprintf(ret->text[n++], size, "DIVVY_REMOTE_HOOKS=%s/libdivvy-cuda.so:%s/libdivvy-nvml.so",
		node->library, node->library);
	if (set->is_simulated) {
		snprintf(ret->text[n++], size, "DIVVY_SIM=%s", set->sim_dir);
		snprintf(ret->text[n++], size, "DIVVY_DRIVER=%s/driver", node->library);
	}
	if (node->options.is_host_access_allowed)
		snprintf(ret->text[n++], size, "DIVVY_REMOTE_HOST_ACCESS=allow");
	for (size_t i = 0; i < n; i++)
		ret->list[i] = ret->text[i];
	ret->list[n] = NULL;
}

/* ---- the network ---- */

const char *serve_address(const struct node *node)
{
	return node->serve && node->serve->helper ? node->serve->address : NULL;
}

static void serve_on_ended(void *data)
{
	struct serve *serve = data;

	log_warn("divvy-remote-far serve exited; restarting it");
	helper_free(TAKE_PTR(serve->helper));
	serve->again_ns = clock_now_ns() + AGAIN_NS;
	node_status_touch(serve->node);
}

static int serve_start_helper(struct serve *serve, struct error *err)
{
	static const char *const argv[] = {"serve", NULL};
	struct serve_env env;
	struct helper_options options = {
		.name = "divvy-remote-far",
		.argv = argv,
		.env = env.list,
		.fds = {-1, -1, serve->identity_fd},
		.n_fds = 3,
		.control_at = 1,
		.ended = serve_on_ended,
		.data = serve,
	};
	struct helper *helper;
	int r = 0;

	if (serve->network_fd < 0)
		r = serve->network_fd = address_listen(&serve->at, SOCK_CLOEXEC, BACKLOG, err);
	if (r < 0)
		return fail_within(err, r, "--remote-listen");
	options.fds[0] = serve->network_fd;
	serve_env_fill(serve->node, &env);
	r = helper_start(serve->node->agent->loop, &options, &helper, err);
	if (r < 0)
		return r;
	/* Frees the former helper, which ends. The sessions that it serves continue. */
	helper_free(serve->helper);
	serve->helper = helper;
	log_info("devices are served to other nodes on %s", serve->address);
	node_status_touch(serve->node);
	return 0;
}

void serve_identity(struct node *node, int fd)
{
	struct serve *serve = node->serve;
	struct error err;

	if (!serve) {
		fd_close(fd);
		return;
	}
	fd_close(serve->identity_fd);
	serve->identity_fd = fd;
	if (serve_start_helper(serve, &err) < 0) {
		log_warn("%s", err.msg);
		serve->again_ns = clock_now_ns() + AGAIN_NS;
	}
}

void serve_tick(struct node *node, uint64_t now)
{
	struct serve *serve = node->serve;
	struct served *served, *next;
	struct error err;

	if (!serve)
		return;
	serve_reap_tenants(serve);
	for (uint32_t i = node->n_offered; i < node->n_slots; i++) {
		struct tenant *t = node_tenant(node, &node->slots[i]);

		if (!t)
			continue;
		served = find_served(serve, t->pod->uid);
		if (served)
			served->asked_ns = now;
		serve_report_reach(serve, t, now);
		if (serve_is_left_behind(
			    serve_pod(node, t->pod->uid), t->n_processes, clock_real_ns()))
			node_served_removed(node, served ? served->uid : t->pod->uid);
	}
	for (served = LIST_FIRST(&serve->pods); served; served = next) {
		next = LIST_NEXT(served, link);
		if (clock_since_ns(now, served->asked_ns) > SERVED_IDLE_NS)
			served_free(served);
	}
	if (serve->helper || serve->identity_fd < 0 || now < serve->again_ns)
		return;
	serve->again_ns = now + AGAIN_NS;
	if (serve_start_helper(serve, &err) < 0)
		log_warn("%s", err.msg);
}

/* ---- start and end ---- */

int serve_address_parse(const char *text, struct address *ret_address, struct error *err)
{
	struct address at;
	int r = address_parse(str_from(text), ADDRESS_BARE | ADDRESS_IS_NUMERIC, &at, err);

	if (r < 0)
		return r;
	if (address_is_all(&at) || strchr(at.host, '%'))
		return fail(err, EINVAL,
			"'%.100s': expected ADDRESS:PORT with an address by which other nodes "
			"reach this one, such as 192.0.2.7:7007 or [2001:db8::7]:7007",
			text);
	*ret_address = at;
	return 0;
}

/* Only root may connect, because the daemon does not check which container the caller names. */
static int listen_daemon(struct serve *serve, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t before;
	int r;

	if ((size_t)snprintf(serve->path, sizeof(serve->path), "%s/" SERVE_SOCKET,
		    serve->node->agent->runtime_dir) >= sizeof(serve->path))
		return fail(err, ENAMETOOLONG, "the runtime folder's path is too long");
	memcpy(address.sun_path, serve->path, sizeof(serve->path));
	unlink(serve->path);
	serve->daemon_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(0177);
	r = serve->daemon_fd < 0 ||
			bind(serve->daemon_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
			listen(serve->daemon_fd, BACKLOG) < 0
		? -errno
		: 0;
	umask(before);
	if (r >= 0)
		socket_refuse_rights(serve->daemon_fd);
	serve->listener.data = serve;
	if (r >= 0)
		r = listener_add(serve->node->agent->loop, &serve->listener, serve->daemon_fd,
			serve_on_connect);
	return r < 0 ? fail_errno(err, -r, "listen on %s", serve->path) : 0;
}

/* Watches the pods from before a restart, whose slots exist already. */
static void watch_again(struct node *node)
{
	for (uint32_t i = node->n_offered; i < node->n_slots; i++) {
		const struct tenant *t = node_tenant(node, &node->slots[i]);
		struct served *served;
		struct error err;

		if (t && !find_served(node->serve, t->pod->uid) &&
			watch_pod(node->serve, t->pod->space, t->pod->name, t->pod->uid, &served,
				&err) < 0)
			log_warn("%s", err.msg);
	}
}

/*
 * Whether kernels on a device can access ordinary memory of their process, so that this node serves
 * no devices. NVML does not report that before driver 580, so each worker also checks by CUDA.
 */
static bool is_kept_back(const struct node *node)
{
	const struct device_set *set = node->agent->devices;

	for (uint32_t i = 0; i < set->n && !node->options.is_host_access_allowed; i++) {
		const char *how = device_host_access(&set->devices[i]);

		if (!how)
			continue;
		log_warn("--remote-listen: kernels on device %u reach ordinary memory of their "
			 "process (%s): this node's devices are not served to pods of other "
			 "nodes, unless --remote-host-access allows it",
			i, how);
		return true;
	}
	return false;
}

int serve_new(struct node *node, struct error *err)
{
	struct serve *serve;
	int r;

	if (!node->options.remote_listen || !node->agent->devices->n || is_kept_back(node))
		return 0;
	serve = calloc(1, sizeof(*serve));
	if (!serve)
		return fail(err, ENOMEM, "no memory");
	serve->node = node;
	serve->network_fd = serve->daemon_fd = serve->identity_fd = -1;
	LIST_INIT(&serve->pods);
	LIST_INIT(&serve->links);
	node->serve = serve;
	r = serve_address_parse(node->options.remote_listen, &serve->at, err);
	address_format(serve->at.host, serve->at.port, serve->address, sizeof(serve->address));
	r = r < 0 ? r : listen_daemon(serve, err);
	if (r >= 0)
		watch_again(node);
	return r;
}

void serve_free(struct node *node)
{
	struct serve *serve = TAKE_PTR(node->serve);
	struct serving *link;

	if (!serve)
		return;
	helper_free(serve->helper);
	LIST_FOREACH(link, &serve->links, link)
		serving_end(link);
	serve_reap_tenants(serve);
	while (LIST_FIRST(&serve->pods))
		served_free(LIST_FIRST(&serve->pods));
	listener_remove(&serve->listener);
	if (serve->daemon_fd >= 0)
		unlink(serve->path);
	fd_close(serve->daemon_fd);
	fd_close(serve->network_fd);
	fd_close(serve->identity_fd);
	free(serve);
}
