/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's questions about containers: passes each call to the caller's callback, and the
 * callback's answer back to the kubelet. A request may outlive its call (the kubelet no longer
 * waits) and its plugin; it ends when it is answered. A request owns the decoded message, from
 * which it borrows the ids. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubelet/plugin-internal.h"
#include "kubelet/unpack.h"

#define TEXT_SIZE 512

struct request {
	/* must stay the first member, because answers cast to the request */
	struct plugin_request public;
	LIST_ENTRY(request) link;
	struct grpc_call *call; /* NULL: the kubelet no longer waits */
	void *message;          /* decoded message, to which the ids belong */
	size_t room;            /* containers for which `containers` has room */
	struct plugin_container containers[];
};

static void plugin_request_call_closed(void *data)
{
	struct request *r = data;

	r->call = NULL;
}

static void request_free(struct request *r)
{
	if (!r)
		return;
	if (r->public.plugin)
		LIST_REMOVE(r, link);
	message_free_p(&r->message);
	free(r);
}

/* Makes a request for n containers. Always takes over the message; ends the call on failure. */
static struct request *request_new(struct grpc_call *call, void *message, size_t n)
{
	struct request *r = NULL;

	if (!message)
		grpc_call_end(call, GRPC_INTERNAL, "the request cannot be decoded");
	else if (n > PLUGIN_CONTAINERS_MAX)
		grpc_call_end(call, GRPC_INVALID_ARGUMENT, "%zu containers: at most %u", n,
			PLUGIN_CONTAINERS_MAX);
	else if (!(r = calloc(1, sizeof(*r) + n * sizeof(r->containers[0]))))
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	if (!r) {
		message_free_p(&message);
		return NULL;
	}
	r->public.plugin = grpc_call_data(call);
	r->public.containers = r->containers;
	r->public.n_containers = n;
	r->call = call;
	r->message = message;
	LIST_INSERT_HEAD(&r->public.plugin->requests, r, link);
	return r;
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * Returns the first id that occurs twice or belongs to no device of this plugin; NULL: none. Sorts
 * the ids, whose order has no meaning.
 */
static const char *find_strange(const struct plugin *p, char **ids, size_t n, bool *ret_is_double)
{
	if (n)
		qsort(ids, n, sizeof(*ids), compare_ids);
	for (size_t i = 0; i < n; i++) {
		*ret_is_double = i && !strcmp(ids[i - 1], ids[i]);
		if (*ret_is_double || !plugin_find(p, ids[i]))
			return ids[i];
	}
	return NULL;
}

static bool take_ids(struct request *r, char **ids, size_t n, struct plugin_ids *ret_ids)
{
	bool is_double = false;
	struct plugin *p = r->public.plugin;
	const char *strange = find_strange(p, ids, n, &is_double);
	char why[128];

	if (!strange) {
		*ret_ids = (struct plugin_ids){(const char *const *)ids, n};
		return true;
	}
	snprintf(why, sizeof(why),
		is_double ? "device '%.64s' is twice in the request"
			  : "device '%.64s' is not offered by divvyd",
		strange);
	if (!is_double && p->ops->unknown)
		p->ops->unknown(p, strange, why);
	plugin_refuse(&r->public, is_double ? GRPC_INVALID_ARGUMENT : GRPC_NOT_FOUND, "%s", why);
	return false;
}

static void hand_over(struct request *r, void (*fn)(struct plugin_request *request))
{
	grpc_call_watch(r->call, plugin_request_call_closed, r);
	fn(&r->public);
}

/* ---- the methods ---- */

void plugin_fill_options(const struct plugin *p, V1beta1__DevicePluginOptions *options)
{
	options->pre_start_required = p->ops->pre_start != NULL;
	options->get_preferred_allocation_available = p->ops->prefer != NULL;
}

static void on_options(struct grpc_call *call, struct str request)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	_cleanup_buf_ struct buf out = {0};

	plugin_fill_options(grpc_call_data(call), &options);
	if (pack(&options.base, &out) < 0)
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_call_reply(call, buf_str(&out));
}

static void on_allocate(struct grpc_call *call, struct str bytes)
{
	V1beta1__AllocateRequest *m = unpack(&v1beta1__allocate_request__descriptor, bytes);
	struct request *r = request_new(call, m, m ? m->n_container_requests : 0);

	if (!r)
		return;
	for (size_t i = 0; i < m->n_container_requests; i++)
		if (!take_ids(r, m->container_requests[i]->device_ids,
			    m->container_requests[i]->n_device_ids, &r->containers[i].devices))
			return;
	hand_over(r, r->public.plugin->ops->allocate);
}

static void on_pre_start(struct grpc_call *call, struct str bytes)
{
	V1beta1__PreStartContainerRequest *m = unpack(
		&v1beta1__pre_start_container_request__descriptor, bytes);
	struct request *r = request_new(call, m, 1);

	if (!r || !take_ids(r, m->device_ids, m->n_device_ids, &r->containers[0].devices))
		return;
	if (r->public.plugin->ops->pre_start)
		hand_over(r, r->public.plugin->ops->pre_start);
	else
		plugin_started(&r->public);
}

static bool take_preference(struct request *r, V1beta1__ContainerPreferredAllocationRequest *from,
	struct plugin_container *to)
{
	if (!take_ids(r, from->available_device_ids, from->n_available_device_ids, &to->devices) ||
		!take_ids(r, from->must_include_device_ids, from->n_must_include_device_ids,
			&to->must))
		return false;
	if (from->allocation_size < 0 || (size_t)from->allocation_size > to->devices.n ||
		to->must.n > (size_t)from->allocation_size) {
		plugin_refuse(&r->public, GRPC_INVALID_ARGUMENT,
			"%d devices of %zu, %zu of them given", from->allocation_size,
			to->devices.n, to->must.n);
		return false;
	}
	to->size = (uint32_t)from->allocation_size;
	return true;
}

static void on_prefer(struct grpc_call *call, struct str bytes)
{
	struct plugin *p = grpc_call_data(call);
	V1beta1__PreferredAllocationRequest *m;
	struct request *r;

	if (!p->ops->prefer) {
		grpc_call_end(call, GRPC_UNIMPLEMENTED, "this plugin prefers no device");
		return;
	}
	m = unpack(&v1beta1__preferred_allocation_request__descriptor, bytes);
	r = request_new(call, m, m ? m->n_container_requests : 0);
	if (!r)
		return;
	for (size_t i = 0; i < m->n_container_requests; i++)
		if (!take_preference(r, m->container_requests[i], &r->containers[i]))
			return;
	hand_over(r, p->ops->prefer);
}

const struct grpc_method plugin_methods[] = {
	{"/v1beta1.DevicePlugin/GetDevicePluginOptions", on_options},
	{"/v1beta1.DevicePlugin/ListAndWatch", plugin_watch},
	{"/v1beta1.DevicePlugin/GetPreferredAllocation", on_prefer},
	{"/v1beta1.DevicePlugin/Allocate", on_allocate},
	{"/v1beta1.DevicePlugin/PreStartContainer", on_pre_start},
};
const size_t plugin_methods_count = ARRAY_SIZE(plugin_methods);

/* ---- answers ---- */

static void plugin_request_reply(struct request *r, const ProtobufCMessage *message)
{
	_cleanup_buf_ struct buf out = {0};

	if (r->call && pack(message, &out) < 0)
		grpc_call_end(r->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else if (r->call)
		grpc_call_reply(r->call, buf_str(&out));
	request_free(r);
}

/* One container's answer, with arrays of the maximum size. */
struct answer {
	V1beta1__ContainerAllocateResponse response;
	V1beta1__ContainerAllocateResponse__EnvsEntry env[PLUGIN_EDITS_MAX];
	V1beta1__ContainerAllocateResponse__EnvsEntry *envs[PLUGIN_EDITS_MAX];
	V1beta1__ContainerAllocateResponse__AnnotationsEntry note[PLUGIN_EDITS_MAX];
	V1beta1__ContainerAllocateResponse__AnnotationsEntry *notes[PLUGIN_EDITS_MAX];
	V1beta1__Mount mount[PLUGIN_EDITS_MAX], *mounts[PLUGIN_EDITS_MAX];
	V1beta1__DeviceSpec node[PLUGIN_EDITS_MAX], *nodes[PLUGIN_EDITS_MAX];
	V1beta1__CDIDevice name[PLUGIN_EDITS_MAX], *names[PLUGIN_EDITS_MAX];
};

/* The structs of protobuf-c have no const members, but packing writes to none. */
static char *plugin_request_text(const char *p)
{
	return (char *)(uintptr_t)p;
}

static void fill_pairs(struct answer *a, const struct plugin_edits *edits)
{
	for (size_t i = 0; i < edits->n_env; i++) {
		v1beta1__container_allocate_response__envs_entry__init(&a->env[i]);
		a->env[i].key = plugin_request_text(edits->env[i].name);
		a->env[i].value = plugin_request_text(edits->env[i].value);
		a->envs[i] = &a->env[i];
	}
	for (size_t i = 0; i < edits->n_annotations; i++) {
		v1beta1__container_allocate_response__annotations_entry__init(&a->note[i]);
		a->note[i].key = plugin_request_text(edits->annotations[i].name);
		a->note[i].value = plugin_request_text(edits->annotations[i].value);
		a->notes[i] = &a->note[i];
	}
	a->response.envs = a->envs;
	a->response.n_envs = edits->n_env;
	a->response.annotations = a->notes;
	a->response.n_annotations = edits->n_annotations;
}

static void fill_answer(struct answer *a, const struct plugin_edits *edits)
{
	v1beta1__container_allocate_response__init(&a->response);
	fill_pairs(a, edits);
	for (size_t i = 0; i < edits->n_mounts; i++) {
		v1beta1__mount__init(&a->mount[i]);
		a->mount[i].container_path = plugin_request_text(edits->mounts[i].container_path);
		a->mount[i].host_path = plugin_request_text(edits->mounts[i].host_path);
		a->mount[i].read_only = edits->mounts[i].is_read_only;
		a->mounts[i] = &a->mount[i];
	}
	for (size_t i = 0; i < edits->n_nodes; i++) {
		v1beta1__device_spec__init(&a->node[i]);
		a->node[i].container_path = plugin_request_text(edits->nodes[i].container_path);
		a->node[i].host_path = plugin_request_text(edits->nodes[i].host_path);
		a->node[i].permissions = plugin_request_text(edits->nodes[i].permissions);
		a->nodes[i] = &a->node[i];
	}
	for (size_t i = 0; i < edits->n_cdi; i++) {
		v1beta1__cdidevice__init(&a->name[i]);
		a->name[i].name = plugin_request_text(edits->cdi[i]);
		a->names[i] = &a->name[i];
	}
	a->response.mounts = a->mounts;
	a->response.n_mounts = edits->n_mounts;
	a->response.devices = a->nodes;
	a->response.n_devices = edits->n_nodes;
	a->response.cdi_devices = a->names;
	a->response.n_cdi_devices = edits->n_cdi;
}

static bool is_too_much(const struct plugin_edits *e)
{
	return MAX(MAX(MAX(e->n_env, e->n_annotations), MAX(e->n_mounts, e->n_nodes)), e->n_cdi) >
		PLUGIN_EDITS_MAX;
}

void plugin_allocated(struct plugin_request *request, const struct plugin_edits *edits)
{
	struct request *r = (struct request *)request;
	const size_t n = request->n_containers;
	_cleanup_free_ struct answer *answers = calloc(n + 1, sizeof(*answers));
	_cleanup_free_ V1beta1__ContainerAllocateResponse **pointers = calloc(
		n + 1, sizeof(V1beta1__ContainerAllocateResponse *));
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;

	if (!answers || !pointers) {
		plugin_refuse(request, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (is_too_much(&edits[i])) {
			plugin_refuse(request, GRPC_INTERNAL,
				"more than %u variables, mounts, devices or names for a container",
				PLUGIN_EDITS_MAX);
			return;
		}
		fill_answer(&answers[i], &edits[i]);
		pointers[i] = &answers[i].response;
	}
	response.container_responses = pointers;
	response.n_container_responses = n;
	plugin_request_reply(r, &response.base);
}

void plugin_started(struct plugin_request *request)
{
	const V1beta1__PreStartContainerResponse response =
		V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;

	plugin_request_reply((struct request *)request, &response.base);
}

void plugin_preferred(struct plugin_request *request, const struct plugin_ids *ids)
{
	const size_t n = request->n_containers;
	_cleanup_free_ V1beta1__ContainerPreferredAllocationResponse *all = calloc(
		n + 1, sizeof(*all));
	_cleanup_free_ V1beta1__ContainerPreferredAllocationResponse **pointers = calloc(
		n + 1, sizeof(V1beta1__ContainerPreferredAllocationResponse *));
	V1beta1__PreferredAllocationResponse response =
		V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;

	if (!all || !pointers) {
		plugin_refuse(request, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		v1beta1__container_preferred_allocation_response__init(&all[i]);
		all[i].device_ids = (char **)(uintptr_t)ids[i].ids;
		all[i].n_device_ids = ids[i].n;
		pointers[i] = &all[i];
	}
	response.container_responses = pointers;
	response.n_container_responses = n;
	plugin_request_reply((struct request *)request, &response.base);
}

void plugin_refuse(struct plugin_request *request, enum grpc_status status, const char *fmt, ...)
{
	struct request *r = (struct request *)request;
	char sentence[TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, ap);
	va_end(ap);
	if (r->call)
		grpc_call_end(r->call, status, "%s", sentence);
	request_free(r);
}

void plugin_drop_requests(struct plugin *p)
{
	struct request *r;

	while ((r = LIST_FIRST(&p->requests))) {
		LIST_REMOVE(r, link);
		r->public.plugin = NULL;
		if (r->call)
			grpc_call_end(r->call, GRPC_UNAVAILABLE, "divvyd is shutting down");
		r->call = NULL;
	}
}
