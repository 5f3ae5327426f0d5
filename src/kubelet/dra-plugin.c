/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DRA driver at the kubelet: see dra-plugin.h. One gRPC server listens in the registry folder
 * of the kubelet and tells name, versions and the socket of the other server, which prepares
 * claims. A request owns the decoded message, from which it borrows the names; the request ends
 * when it is answered. One thread.
 */
#include "kubelet/dra-plugin.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/rand.h"
#include "kubelet/dra.pb-c.h"
#include "kubelet/grpc-server.h"
#include "kubelet/unpack.h"

/* A kubelet takes the first version of a service that it knows. */
static const char *const versions[] = {
	"v1.DRAPlugin",
	"v1beta1.DRAPlugin",
	"v1.DRAResourceHealth",
	"v1alpha1.DRAResourceHealth",
};

#define DRIVER_SUFFIX ".sock"
#define REGISTRY_SUFFIX "-reg.sock"

/* A stream of health reports to the kubelet. */
struct health_watch {
	LIST_ENTRY(health_watch) link;
	struct dra_plugin *plugin;
	struct grpc_call *call;
};

struct dra_call {
	/* must stay the first member, because answers cast to the call */
	struct dra_request public;
	LIST_ENTRY(dra_call) link;
	struct grpc_call *call; /* NULL: the kubelet no longer waits */
	Dra__PrepareRequest *message;
	bool is_prepare;
	bool is_waiting; /* for dra_plugin_take() */
	struct dra_claim_name claims[];
};

/* One of the plugin's two sockets. */
struct dra_socket {
	struct grpc_server *server;
	char *path;
};

struct dra_plugin {
	struct loop *loop;
	const struct dra_ops *ops;
	void *data;
	char *driver, *registry, *folder;
	struct dra_socket service, registration;
	struct buf report; /* packed */
	LIST_HEAD(, health_watch) watches;
	LIST_HEAD(, dra_call) calls; /* not answered yet */
	char reason[256];            /* last reported reason for not being registered */
	bool is_known, is_ending;
};

void *dra_plugin_data(const struct dra_plugin *p)
{
	return p->data;
}

bool dra_plugin_is_known(const struct dra_plugin *p)
{
	return p->is_known;
}

static void set_known(struct dra_plugin *p, bool is_known, const char *reason)
{
	if (p->is_known == is_known && (is_known || !strcmp(p->reason, reason)))
		return;
	p->is_known = is_known;
	snprintf(p->reason, sizeof(p->reason), "%s", reason);
	if (p->ops && p->ops->changed)
		p->ops->changed(p, is_known, p->reason);
}

static void dra_reply(struct grpc_call *call, const ProtobufCMessage *message)
{
	_cleanup_buf_ struct buf out = {0};

	if (pack(message, &out) < 0)
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_call_reply(call, buf_str(&out));
}

/* The structs of protobuf-c have no const members, but packing writes to none. */
static char *dra_text(const char *p)
{
	return (char *)(uintptr_t)p;
}

/* ---- registration ---- */

static void on_info(struct grpc_call *call, struct str request)
{
	const struct dra_plugin *p = grpc_call_data(call);
	Dra__PluginInfo info = DRA__PLUGIN_INFO__INIT;

	info.type = dra_text("DRAPlugin");
	info.name = p->driver;
	info.endpoint = p->service.path;
	info.supported_versions = (char **)(uintptr_t)versions;
	info.n_supported_versions = ARRAY_SIZE(versions);
	dra_reply(call, &info.base);
}

static void on_registered(struct grpc_call *call, struct str request)
{
	struct dra_plugin *p = grpc_call_data(call);
	_cleanup_message_ Dra__RegistrationStatus *status = unpack(
		&dra__registration_status__descriptor, request);

	if (!status) {
		grpc_call_end(call, GRPC_INTERNAL, "the request cannot be decoded");
		return;
	}
	if (status->plugin_registered)
		set_known(p, true, "the kubelet has registered the driver");
	else
		set_known(p, false, status->error[0] ? status->error : "the kubelet refuses it");
	grpc_call_reply(call, STR("")); /* an empty message */
}

static const struct grpc_method registration_methods[] = {
	{"/pluginregistration.Registration/GetInfo", on_info},
	{"/pluginregistration.Registration/NotifyRegistrationStatus", on_registered},
};

/* ---- health ---- */

static void health_closed(void *data)
{
	struct health_watch *w = data;
	struct dra_plugin *p = w->plugin;

	LIST_REMOVE(w, link);
	free(w);
	/* A kubelet keeps its watch for as long as the driver is registered there. */
	if (LIST_EMPTY(&p->watches) && !p->is_ending)
		set_known(p, false, "the kubelet no longer watches the devices");
}

static void on_health(struct grpc_call *call, struct str request)
{
	struct dra_plugin *p = grpc_call_data(call);
	struct health_watch *w = calloc(1, sizeof(*w));

	if (!w) {
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	w->plugin = p;
	w->call = call;
	LIST_INSERT_HEAD(&p->watches, w, link);
	grpc_call_watch(call, health_closed, w);
	if (p->ops) /* the first report would have no devices otherwise */
		grpc_call_send(call, buf_str(&p->report));
	set_known(p, true, "the kubelet watches the devices");
}

struct report {
	Dra__DeviceHealth health;
	Dra__DeviceIdentifier device;
};

static void report_fill(const struct dra_health *from, struct report *to)
{
	dra__device_health__init(&to->health);
	dra__device_identifier__init(&to->device);
	to->device.pool_name = dra_text(from->pool);
	to->device.device_name = dra_text(from->device);
	to->health.device = &to->device;
	to->health.health = from->is_healthy ? DRA__HEALTH__HEALTHY : DRA__HEALTH__UNHEALTHY;
	to->health.last_updated_time = from->since_s;
	/*
	 * The kubelet counts a device as unknown when its report is older than this. A stream has
	 * only changes, so the time is as long as a kubelet can compute with.
	 */
	to->health.health_check_timeout_seconds = INT32_MAX;
	to->health.message = dra_text(from->message);
}

int dra_plugin_report(
	struct dra_plugin *p, const struct dra_health *devices, size_t n, struct error *err)
{
	Dra__WatchResponse response = DRA__WATCH_RESPONSE__INIT;
	_cleanup_free_ struct report *all = calloc(n + 1, sizeof(*all));
	_cleanup_free_ Dra__DeviceHealth **pointers = calloc(n + 1, sizeof(Dra__DeviceHealth *));
	_cleanup_buf_ struct buf packed = {0};
	struct health_watch *w;

	if (n > DRA_REPORTS_MAX)
		return fail(err, E2BIG, "%zu devices: at most %u", n, DRA_REPORTS_MAX);
	if (!all || !pointers)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		report_fill(&devices[i], &all[i]);
		pointers[i] = &all[i].health;
	}
	response.devices = pointers;
	response.n_devices = n;
	if (pack(&response.base, &packed) < 0)
		return fail(err, ENOMEM, "out of memory");
	if (str_eq(buf_str(&p->report), buf_str(&packed)))
		return 0;
	buf_done(&p->report);
	p->report = TAKE(packed, (struct buf){0});
	LIST_FOREACH(w, &p->watches, link)
		grpc_call_send(w->call, buf_str(&p->report));
	return 0;
}

/* ---- claims ---- */

static void dra_call_closed(void *data)
{
	struct dra_call *c = data;

	c->call = NULL;
}

static void dra_call_free(struct dra_call *c)
{
	if (!c)
		return;
	if (c->public.plugin)
		LIST_REMOVE(c, link);
	message_free_p(&c->message);
	free(c);
}

static bool has_names(const Dra__PrepareRequest *m)
{
	for (size_t i = 0; i < m->n_claims; i++)
		if (!m->claims[i]->namespace_name[0] || !m->claims[i]->name[0] ||
			!m->claims[i]->uid[0])
			return false;
	return true;
}

static void claims_pass(struct dra_call *c)
{
	const struct dra_ops *ops = c->public.plugin->ops;

	c->is_waiting = false;
	if (c->is_prepare)
		ops->prepare(&c->public);
	else
		ops->unprepare(&c->public);
}

static struct dra_call *find_waiting(const struct dra_plugin *p)
{
	struct dra_call *c, *oldest = NULL;

	LIST_FOREACH(c, &p->calls, link)
		if (c->is_waiting)
			oldest = c;
	return oldest;
}

void dra_plugin_take(struct dra_plugin *p, const struct dra_ops *ops, void *data)
{
	struct dra_call *c;

	p->ops = ops;
	p->data = data;
	if (ops->changed)
		ops->changed(p, p->is_known, p->reason);
	/* A callback may end its call or others. */
	while ((c = find_waiting(p)))
		claims_pass(c);
}

static void claims_begin(struct grpc_call *call, struct str bytes, bool is_prepare)
{
	struct dra_plugin *p = grpc_call_data(call);
	/* Both requests have the same fields. */
	_cleanup_message_ Dra__PrepareRequest *m = unpack(&dra__prepare_request__descriptor, bytes);
	struct dra_call *c = NULL;

	if (!m)
		grpc_call_end(call, GRPC_INTERNAL, "the request cannot be decoded");
	else if (m->n_claims > DRA_CLAIMS_MAX)
		grpc_call_end(call, GRPC_INVALID_ARGUMENT, "%zu claims: at most %u", m->n_claims,
			DRA_CLAIMS_MAX);
	else if (!has_names(m))
		grpc_call_end(
			call, GRPC_INVALID_ARGUMENT, "a claim lacks its namespace, name or uid");
	else if (!(c = calloc(1, sizeof(*c) + m->n_claims * sizeof(c->claims[0]))))
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	if (!c)
		return;
	for (size_t i = 0; i < m->n_claims; i++)
		c->claims[i] = (struct dra_claim_name){
			m->claims[i]->namespace_name, m->claims[i]->name, m->claims[i]->uid};
	c->public = (struct dra_request){p, c->claims, m->n_claims};
	c->message = TAKE_PTR(m);
	c->call = call;
	c->is_prepare = is_prepare;
	LIST_INSERT_HEAD(&p->calls, c, link);
	grpc_call_watch(call, dra_call_closed, c);
	c->is_waiting = !p->ops;
	if (p->ops)
		claims_pass(c);
}

static void on_prepare(struct grpc_call *call, struct str request)
{
	claims_begin(call, request, true);
}

static void on_unprepare(struct grpc_call *call, struct str request)
{
	claims_begin(call, request, false);
}

static const struct grpc_method service_methods[] = {
	{"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", on_prepare},
	{"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", on_unprepare},
	{"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources", on_prepare},
	{"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources", on_unprepare},
	{"/v1.DRAResourceHealth/NodeWatchResources", on_health},
	{"/v1alpha1.DRAResourceHealth/NodeWatchResources", on_health},
};

/* ---- answers ---- */

/* A device with the arrays of one entry that it needs. */
struct answer_device {
	Dra__Device device;
	char *requests[1], *cdi[1];
};

/* The answer about one claim. */
struct answer {
	Dra__PrepareResponse__ClaimsEntry entry;
	Dra__PreparedClaim claim;
	struct answer_device device[DRA_DEVICES_MAX];
	Dra__Device *devices[DRA_DEVICES_MAX];
};

static void answer_device_fill(const struct dra_device *from, struct answer_device *to)
{
	dra__device__init(&to->device);
	to->requests[0] = dra_text(from->request);
	to->cdi[0] = dra_text(from->cdi);
	to->device.request_names = to->requests;
	to->device.n_request_names = from->request[0] != '\0';
	to->device.pool_name = dra_text(from->pool);
	to->device.device_name = dra_text(from->device);
	to->device.share_id = dra_text(from->share_id);
	to->device.cdi_device_ids = to->cdi;
	to->device.n_cdi_device_ids = from->cdi[0] != '\0';
}

static void answer_fill(const char *uid, const struct dra_result *from, struct answer *to)
{
	const size_t n = from->error ? 0 : MIN(from->n_devices, (size_t)DRA_DEVICES_MAX);

	dra__prepare_response__claims_entry__init(&to->entry);
	dra__prepared_claim__init(&to->claim);
	to->entry.key = dra_text(uid);
	to->entry.value = &to->claim;
	if (from->error)
		to->claim.error = dra_text(from->error);
	for (size_t i = 0; i < n; i++) {
		answer_device_fill(&from->devices[i], &to->device[i]);
		to->devices[i] = &to->device[i].device;
	}
	to->claim.devices = to->devices;
	to->claim.n_devices = n;
}

static void answer_prepare(struct dra_call *c, const struct dra_result *results)
{
	const size_t n = c->public.n_claims;
	Dra__PrepareResponse response = DRA__PREPARE_RESPONSE__INIT;
	_cleanup_free_ struct answer *all = calloc(n + 1, sizeof(*all));
	_cleanup_free_ Dra__PrepareResponse__ClaimsEntry **pointers = calloc(
		n + 1, sizeof(Dra__PrepareResponse__ClaimsEntry *));

	if (!all || !pointers) {
		grpc_call_end(c->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		answer_fill(c->claims[i].uid, &results[i], &all[i]);
		pointers[i] = &all[i].entry;
	}
	response.claims = pointers;
	response.n_claims = n;
	dra_reply(c->call, &response.base);
}

struct unprepared {
	Dra__UnprepareResponse__ClaimsEntry entry;
	Dra__UnpreparedClaim claim;
};

static void answer_unprepare(struct dra_call *c, const struct dra_result *results)
{
	const size_t n = c->public.n_claims;
	Dra__UnprepareResponse response = DRA__UNPREPARE_RESPONSE__INIT;
	_cleanup_free_ struct unprepared *all = calloc(n + 1, sizeof(*all));
	_cleanup_free_ Dra__UnprepareResponse__ClaimsEntry **pointers = calloc(
		n + 1, sizeof(Dra__UnprepareResponse__ClaimsEntry *));

	if (!all || !pointers) {
		grpc_call_end(c->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		dra__unprepare_response__claims_entry__init(&all[i].entry);
		dra__unprepared_claim__init(&all[i].claim);
		all[i].entry.key = dra_text(c->claims[i].uid);
		all[i].entry.value = &all[i].claim;
		if (results[i].error)
			all[i].claim.error = dra_text(results[i].error);
		pointers[i] = &all[i].entry;
	}
	response.claims = pointers;
	response.n_claims = n;
	dra_reply(c->call, &response.base);
}

void dra_answer(struct dra_request *request, const struct dra_result *results)
{
	struct dra_call *c = (struct dra_call *)request;

	if (c->call && c->is_prepare)
		answer_prepare(c, results);
	else if (c->call)
		answer_unprepare(c, results);
	dra_call_free(c);
}

void dra_refuse(struct dra_request *request, const char *why)
{
	struct dra_call *c = (struct dra_call *)request;

	if (c->call)
		grpc_call_end(c->call, GRPC_UNAVAILABLE, "%s", why);
	dra_call_free(c);
}

/* ---- sockets ---- */

/* Whether the name is the driver's name, eight hexadecimal digits and the suffix. */
static bool is_own_name(const struct dra_plugin *p, const char *name, const char *suffix)
{
	const size_t n = strlen(p->driver);

	return strlen(name) == n + 9 + strlen(suffix) && !strncmp(name, p->driver, n) &&
		name[n] == '-' && strspn(name + n + 1, "0123456789abcdef") == 8 &&
		!strcmp(name + n + 9, suffix);
}

/* Unlinks the sockets of drivers that were killed. Keeps the socket of a driver that runs. */
static void clear_old(const struct dra_plugin *p, const char *folder, const char *suffix)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	char path[PATH_MAX];

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (is_own_name(p, entry->d_name, suffix) &&
			(size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) <
				sizeof(path))
			grpc_socket_clear(path, NULL);
	closedir(dir);
}

static int dra_listen(struct dra_plugin *p, struct dra_socket *s, const char *folder,
	const char *suffix, struct error *err)
{
	uint32_t number = 0;
	int r = random_bytes(&number, sizeof(number));

	if (r < 0)
		return fail_errno(err, -r, "choose a name for the socket");
	r = folder_make(folder, 0755, err);
	if (r < 0)
		return r;
	clear_old(p, folder, suffix);
	free(s->path);
	s->path = NULL;
	if (asprintf(&s->path, "%s/%s-%08x%s", folder, p->driver, number, suffix) < 0) {
		s->path = NULL;
		return fail(err, ENOMEM, "out of memory");
	}
	return grpc_server_listen(s->server, s->path, err);
}

/*
 * Makes the sockets that are missing. A kubelet learns of a new socket of claims only by a new
 * registration, so both are made again then.
 */
static int dra_listen_all(struct dra_plugin *p, struct error *err)
{
	const bool has_service = p->service.path && grpc_server_is_there(p->service.server);
	int r;

	if (has_service && p->registration.path && grpc_server_is_there(p->registration.server))
		return 0;
	r = has_service ? 0 : dra_listen(p, &p->service, p->folder, DRIVER_SUFFIX, err);
	return r < 0 ? r : dra_listen(p, &p->registration, p->registry, REGISTRY_SUFFIX, err);
}

void dra_plugin_tick(struct dra_plugin *p)
{
	struct error err;

	if (dra_listen_all(p, &err) < 0)
		set_known(p, false, err.msg);
}

/* ---- making and freeing a plugin ---- */

static int dra_plugin_start(struct dra_plugin *p, struct error *err)
{
	int r = grpc_server_new(
		p->loop, service_methods, ARRAY_SIZE(service_methods), p, &p->service.server);

	if (r == 0)
		r = grpc_server_new(p->loop, registration_methods, ARRAY_SIZE(registration_methods),
			p, &p->registration.server);
	if (r < 0)
		return fail(err, ENOMEM, "out of memory");
	r = dra_plugin_report(p, NULL, 0, err);
	return r < 0 ? r : dra_listen_all(p, err);
}

int dra_plugin_new(struct loop *loop, const struct dra_options *options,
	struct dra_plugin **ret_plugin, struct error *err)
{
	struct dra_plugin *p = calloc(1, sizeof(*p));
	int r = 0;

	if (!p)
		return fail(err, ENOMEM, "out of memory");
	p->loop = loop;
	p->ops = options->ops;
	p->data = options->data;
	LIST_INIT(&p->watches);
	LIST_INIT(&p->calls);
	p->driver = str_dup(str_from(options->driver));
	p->registry = str_dup(str_from(options->registry));
	p->folder = str_dup(str_from(options->folder));
	if (!p->driver || !p->registry || !p->folder)
		r = fail(err, ENOMEM, "out of memory");
	r = r < 0 ? r : dra_plugin_start(p, err);
	if (r < 0) {
		dra_plugin_free(p);
		return r;
	}
	*ret_plugin = p;
	return 0;
}

void dra_plugin_free(struct dra_plugin *p)
{
	struct dra_call *c;

	if (!p)
		return;
	p->is_ending = true;
	while ((c = LIST_FIRST(&p->calls))) {
		LIST_REMOVE(c, link);
		c->public.plugin = NULL;
		if (c->call)
			grpc_call_end(c->call, GRPC_UNAVAILABLE, "the driver is shutting down");
		c->call = NULL;
		if (c->is_waiting) /* nobody else has it */
			dra_call_free(c);
	}
	grpc_server_free(p->registration.server);
	grpc_server_free(p->service.server);
	free(p->registration.path);
	free(p->service.path);
	buf_done(&p->report);
	free(p->driver);
	free(p->registry);
	free(p->folder);
	free(p);
}
