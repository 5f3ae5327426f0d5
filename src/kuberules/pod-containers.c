/* SPDX-License-Identifier: Apache-2.0 */
/* Sums up the requests of a pod's containers: see pod-containers.h. */
#include "kuberules/pod-containers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fields/read.h"
#include "kuberules/releases.h"

static const char *const protocol_words[] = {
	[PORT_TCP] = "TCP",
	[PORT_UDP] = "UDP",
	[PORT_SCTP] = "SCTP",
};

READ_WORD(read_protocol, protocol_words)

static const struct read_field port_fields[] = {
	READ_FIELD(struct host_port, ip, "hostIP", read_text),
	READ_FIELD(struct host_port, protocol, "protocol", read_protocol),
	READ_FIELD(struct host_port, port, "hostPort", read_number),
	READ_NOTHING("containerPort"),
	READ_NOTHING("name"),
};

READ_OBJECT(read_port, struct host_port, port_fields)
READ_LIST(read_ports, struct host_port, read_port)

/* Amounts that a status reports: what the kubelet has promised, and what is in force. */
struct held {
	struct resources allocated, actuated;
	bool has_resources, has_allocated, has_actuated;
};

struct container {
	const char *name;
	struct resources request;
	struct held held;
	struct host_ports ports;
	bool is_sidecar;
};

struct containers {
	struct container *v;
	uint32_t n;
};

struct demand {
	json_t *requests, *limits; /* borrowed */
};

static int read_borrowed(struct arena *arena, json_t *value, void *into, struct error *err)
{
	if (!json_is_object(value))
		return fail(err, EINVAL, "is no map");
	*(json_t **)into = value;
	return 0;
}

static const struct read_field demand_fields[] = {
	READ_FIELD(struct demand, requests, "requests", read_borrowed),
	READ_FIELD(struct demand, limits, "limits", read_borrowed),
	READ_NOTHING("claims"), /* the pod's spec has the claims of all containers */
};

/* Returns the requests. For a resource without a request the limit counts, as in the API server. */
static json_t *demand_merge(const struct demand *demand)
{
	json_t *merged = json_object();

	if (!merged || (demand->limits && json_object_update(merged, demand->limits) < 0) ||
		(demand->requests && json_object_update(merged, demand->requests) < 0)) {
		json_decref(merged);
		return NULL;
	}
	return merged;
}

static int read_demand(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct demand demand = {0};
	int r = read_fields(arena, value, demand_fields, ARRAY_SIZE(demand_fields), &demand, err);
	json_t *merged = demand_merge(&demand);
	int second;

	if (!merged)
		return fail(r < 0 ? NULL : err, ENOMEM, "out of memory");
	second = resources_read(arena, merged, into, r < 0 ? NULL : err);
	if (second < 0 && r == 0)
		r = fail_within(err, second, "requests");
	json_decref(merged);
	return r;
}

static const char *const restart_words[] = {"Always", "OnFailure", "Never"};

static int read_restart(struct arena *arena, json_t *value, void *into, struct error *err)
{
	int word = 1;
	int r = read_word(value, restart_words, ARRAY_SIZE(restart_words), &word, err);

	*(bool *)into = word == 0;
	return r;
}

static const struct read_field container_fields[] = {
	READ_FIELD(struct container, name, "name", read_text),
	READ_FIELD(struct container, request, "resources", read_demand),
	READ_FIELD(struct container, ports, "ports", read_ports),
	READ_FIELD(struct container, is_sidecar, "restartPolicy", read_restart),
	/* declared-features.c reads these two fields. */
	READ_NOTHING("restartPolicyRules"),
	READ_NOTHING("volumeMounts"),
	READ_NOTHING("args"),
	READ_NOTHING("command"),
	READ_NOTHING("env"),
	READ_NOTHING("envFrom"),
	READ_NOTHING("image"),
	READ_NOTHING("imagePullPolicy"),
	READ_NOTHING("lifecycle"),
	READ_NOTHING("livenessProbe"),
	READ_NOTHING("readinessProbe"),
	READ_NOTHING("resizePolicy"),
	READ_NOTHING("securityContext"),
	READ_NOTHING("startupProbe"),
	READ_NOTHING("stdin"),
	READ_NOTHING("stdinOnce"),
	READ_NOTHING("terminationMessagePath"),
	READ_NOTHING("terminationMessagePolicy"),
	READ_NOTHING("tty"),
	READ_NOTHING("volumeDevices"),
	READ_NOTHING("workingDir"),
};

static int read_container(struct arena *arena, json_t *value, void *into, struct error *err)
{
	if (!json_is_object(value))
		return fail(err, EINVAL, "is not an object");
	return read_some(arena, value, container_fields, ARRAY_SIZE(container_fields), into, err);
}

READ_LIST(read_container_list, struct container, read_container)

static int pod_containers_read_containers(
	struct arena *arena, json_t *value, void *into, struct error *err)
{
	if (json_array_size(value) > POD_CONTAINERS_MAX)
		return fail(err, E2BIG, "has %zu containers: at most %d", json_array_size(value),
			POD_CONTAINERS_MAX);
	return read_container_list(arena, value, into, err);
}

/* The requests that a status reports in `resources`. */
static const struct read_field held_fields[] = {
	READ_FIELD(struct demand, requests, "requests", read_borrowed),
};

/*
 * Reads the amounts of a container's or the pod's status. ret_held->allocated and ->actuated are
 * NULL if the status has none.
 */
static int read_held(struct pod *pod, json_t *status, struct held *ret_held, struct error *err)
{
	json_t *allocated = json_object_get(status, "allocatedResources");
	json_t *resources = json_object_get(status, "resources");
	struct held held = {.has_resources = json_is_object(resources)};
	struct demand demand = {0};
	int r = 0;

	if (held.has_resources)
		r = read_some(&pod->object.arena, resources, held_fields, ARRAY_SIZE(held_fields),
			&demand, err);
	if (r == 0 && demand.requests) {
		held.has_actuated = true;
		r = resources_read(&pod->object.arena, demand.requests, &held.actuated, err);
	}
	if (r == 0 && json_is_object(allocated)) {
		held.has_allocated = true;
		r = resources_read(&pod->object.arena, allocated, &held.allocated, err);
	}
	if (r == 0)
		*ret_held = held;
	return r;
}

/*
 * Returns whether the kubelet has marked the pod's resize as infeasible: the requested amounts then
 * do not count, because the node can never grant them.
 */
static bool is_resize_infeasible(json_t *status)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(status, "conditions"), i, one) {
		const char *type = json_string_value(json_object_get(one, "type"));
		const char *reason = json_string_value(json_object_get(one, "reason"));

		if (type && reason && !strcmp(type, "PodResizePending") &&
			!strcmp(reason, "Infeasible"))
			return true;
	}
	return false;
}

static int compare_names(const void *a, const void *b)
{
	const struct container *x = *(const struct container *const *)a;
	const struct container *y = *(const struct container *const *)b;

	return strcmp(x->name, y->name);
}

/* Sorts the containers by name, since the kubelet sorts the statuses by name, too. */
static int sort_containers(
	struct pod *pod, struct containers *containers, struct container ***ret_sorted)
{
	struct container **sorted = arena_take_array(
		&pod->object.arena, containers->n, sizeof(struct container *));

	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < containers->n; i++) {
		if (!containers->v[i].name)
			containers->v[i].name = "";
		sorted[i] = &containers->v[i];
	}
	qsort(sorted, containers->n, sizeof(*sorted), compare_names);
	*ret_sorted = sorted;
	return 0;
}

static int read_statuses(
	struct pod *pod, struct containers *containers, json_t *statuses, struct error *err)
{
	struct container **sorted = NULL, **found;
	json_t *one;
	size_t i;
	int r = 0;

	if (!containers->n || !json_array_size(statuses))
		return 0;
	if (sort_containers(pod, containers, &sorted) < 0)
		return fail(err, ENOMEM, "out of memory");
	json_array_foreach(statuses, i, one) {
		struct container key = {.name = json_string_value(json_object_get(one, "name"))};
		const struct container *wanted = &key;

		if (r < 0)
			break;
		if (!key.name)
			continue;
		found = bsearch(&wanted, sorted, containers->n, sizeof(*sorted), compare_names);
		if (found)
			r = read_held(pod, one, &(*found)->held, err);
	}
	return r;
}

static int add_ports(
	struct pod *pod, const struct containers *containers, bool is_init, struct error *err)
{
	struct host_ports *all = &pod->ports;

	for (uint32_t i = 0; i < containers->n; i++) {
		const struct container *container = &containers->v[i];

		for (uint32_t k = 0; k < container->ports.n; k++) {
			struct host_port port = container->ports.v[k];

			/*
			 * An init container that is no sidecar has ended when the pod runs, and its
			 * ports are free.
			 */
			if (port.port <= 0 || (is_init && !container->is_sidecar))
				continue;
			if (all->n == POD_PORTS_MAX)
				return fail(err, E2BIG, "more than %d ports on the host",
					POD_PORTS_MAX);
			if (!port.ip || !*port.ip)
				port.ip = "0.0.0.0";
			all->v[all->n++] = port;
		}
	}
	return 0;
}

static int make_room_for_ports(struct pod *pod, const struct containers *containers,
	const struct containers *inits, struct error *err)
{
	size_t n = 0;

	for (uint32_t i = 0; i < containers->n; i++)
		n += containers->v[i].ports.n;
	for (uint32_t i = 0; i < inits->n; i++)
		n += inits->v[i].ports.n;
	pod->ports.v = n ? arena_take_array(&pod->object.arena, MIN(n, (size_t)POD_PORTS_MAX),
				   sizeof(*pod->ports.v))
			 : NULL;
	return n && !pod->ports.v ? fail(err, ENOMEM, "out of memory") : 0;
}

/* Amounts in a pod's spec and status. */
struct demands {
	struct containers containers, inits;
	struct resources overhead, level; /* level: spec.resources, for the pod as a whole */
	struct held held;                 /* of the pod as a whole */
	bool is_infeasible;
};

/* The kinds of amounts; the largest counts. */
enum amount { AMOUNT_REQUESTED, AMOUNT_ALLOCATED, AMOUNT_ACTUATED };

/*
 * Returns the container's amounts of that kind, borrowed. If the status lacks them, the next kind
 * counts in their place.
 */
static const struct resources *amounts_of(
	const struct demands *all, const struct container *container, enum amount kind)
{
	static const struct resources none;
	const struct held *held = &container->held;

	if (kind == AMOUNT_ACTUATED && held->has_actuated)
		return &held->actuated;
	if (kind != AMOUNT_REQUESTED && held->has_allocated)
		return &held->allocated;
	return kind != AMOUNT_REQUESTED && all->is_infeasible ? &none : &container->request;
}

/*
 * Adds up the amounts of one kind: the larger of two amounts. One is the sum of containers and
 * sidecars, which run together. The other is the most that an init container needs together with
 * the sidecars started before it.
 */
static int sum_amounts(
	struct arena *arena, const struct demands *all, enum amount kind, struct resources *sum)
{
	const struct containers *containers = &all->containers, *inits = &all->inits;
	struct resources sidecars = {0}, moment;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < containers->n; i++)
		r = resources_add(arena, sum, amounts_of(all, &containers->v[i], kind));
	for (uint32_t i = 0; r == 0 && i < inits->n; i++)
		if (inits->v[i].is_sidecar)
			r = resources_add(arena, sum, amounts_of(all, &inits->v[i], kind));
	for (uint32_t i = 0; r == 0 && i < inits->n; i++) {
		const struct resources *own = amounts_of(all, &inits->v[i], kind);

		moment = (struct resources){0};
		r = resources_add(arena, &moment, &sidecars);
		if (r == 0)
			r = resources_add(arena, &moment, own);
		if (r == 0)
			r = resources_raise(arena, sum, &moment);
		if (r == 0 && inits->v[i].is_sidecar)
			r = resources_add(arena, &sidecars, own);
	}
	return r;
}

/* Replaces the request by the largest of the amounts, if the status reports resources. */
static int raise_container(
	struct arena *arena, const struct demands *all, struct container *container)
{
	int r;

	if (!container->held.has_resources)
		return 0;
	if (all->is_infeasible)
		container->request = (struct resources){0};
	r = resources_raise(arena, &container->request, &container->held.actuated);
	return r == 0 ? resources_raise(arena, &container->request, &container->held.allocated) : r;
}

/*
 * Before RULES_STATUS_SUMS the largest amount of each container counted, and the status of an init
 * container only if it is a sidecar.
 */
static int sum_by_container(struct pod *pod, struct demands *all)
{
	struct arena *arena = &pod->object.arena;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < all->containers.n; i++)
		r = raise_container(arena, all, &all->containers.v[i]);
	for (uint32_t i = 0; r == 0 && i < all->inits.n; i++)
		if (all->inits.v[i].is_sidecar)
			r = raise_container(arena, all, &all->inits.v[i]);
	return r == 0 ? sum_amounts(arena, all, AMOUNT_REQUESTED, &pod->request) : r;
}

/*
 * Since RULES_STATUS_SUMS the largest of three sums counts. The pod's own status replaces the sums
 * of its containers' statuses.
 */
static int sum_by_kind(struct pod *pod, const struct demands *all)
{
	struct arena *arena = &pod->object.arena;
	struct resources allocated = {0}, actuated = {0};
	int r = 0;

	if (!all->is_infeasible)
		r = sum_amounts(arena, all, AMOUNT_REQUESTED, &pod->request);
	if (all->held.has_allocated && all->held.has_actuated) {
		allocated = all->held.allocated;
		actuated = all->held.actuated;
	} else {
		if (r == 0)
			r = sum_amounts(arena, all, AMOUNT_ALLOCATED, &allocated);
		if (r == 0)
			r = sum_amounts(arena, all, AMOUNT_ACTUATED, &actuated);
	}
	if (r == 0)
		r = resources_raise(arena, &pod->request, &allocated);
	return r == 0 ? resources_raise(arena, &pod->request, &actuated) : r;
}

/* The maps of amounts for the pod as a whole, each NULL if it is missing. */
struct level_maps {
	json_t *spec[2], *status[2];
};

static bool is_named(json_t *const maps[2], const char *name)
{
	return json_object_get(maps[0], name) || json_object_get(maps[1], name);
}

/*
 * Returns whether an amount for the pod as a whole replaces the sum of the containers. Before
 * RULES_STATUS_SUMS the spec had to name the resource.
 */
static bool is_level_given(const struct pod *pod, const struct demands *all,
	const struct level_maps *maps, const char *name)
{
	if (pod->object.minor < RULES_STATUS_SUMS || !all->held.has_resources)
		return is_named(maps->spec, name);
	return (is_named(maps->spec, name) && !all->is_infeasible) || is_named(maps->status, name);
}

static bool is_hugepages(const char *name)
{
	return str_has_prefix(str_from(name), STR("hugepages-"));
}

static int set_level(struct pod *pod, const struct demands *all, const struct level_maps *maps,
	const struct resources *amounts)
{
	struct arena *arena = &pod->object.arena;
	int r = 0;

	if (is_level_given(pod, all, maps, "cpu"))
		r = resources_set(arena, &pod->request, "cpu", amounts->cpu_milli);
	if (r == 0 && is_level_given(pod, all, maps, "memory"))
		r = resources_set(arena, &pod->request, "memory", amounts->memory_bytes);
	for (uint32_t i = 0; r == 0 && i < all->level.n_others; i++) {
		const char *name = all->level.others[i].name;

		if (is_level_given(pod, all, maps, name))
			r = resources_set(
				arena, &pod->request, name, resources_other(amounts, name));
	}
	for (uint32_t i = 0; r == 0 && i < amounts->n_others; i++) {
		const char *name = amounts->others[i].name;

		if (is_hugepages(name) && is_level_given(pod, all, maps, name))
			r = resources_set(arena, &pod->request, name, amounts->others[i].n);
	}
	return r;
}

/*
 * Amounts for the whole pod replace the sums of the containers: those of spec.resources or, while
 * the pod is resized, the largest of spec and status.
 */
static int apply_pod_level(
	struct pod *pod, const struct demands *all, json_t *spec, json_t *status, struct error *err)
{
	json_t *wanted = json_object_get(spec, "resources");
	const struct level_maps maps = {
		{json_object_get(wanted, "requests"), json_object_get(wanted, "limits")},
		{json_object_get(json_object_get(status, "resources"), "requests"),
			json_object_get(status, "allocatedResources")},
	};
	struct arena *arena = &pod->object.arena;
	struct resources amounts = {0};
	int r = 0;

	if (!json_object_size(maps.spec[0]) && !json_object_size(maps.spec[1]))
		return 0;
	for (uint32_t i = 0; i < all->level.n_others; i++)
		if (!is_hugepages(all->level.others[i].name))
			return fail(err, ENOTSUP,
				"resources: %.64s: a pod may request only cpu, memory and "
				"hugepages as a whole",
				all->level.others[i].name);
	if (!all->held.has_resources || !all->is_infeasible)
		r = resources_add(arena, &amounts, &all->level);
	if (r == 0 && all->held.has_resources)
		r = resources_raise(arena, &amounts, &all->held.actuated);
	if (r == 0 && all->held.has_resources)
		r = resources_raise(arena, &amounts, &all->held.allocated);
	if (r == 0)
		r = set_level(pod, all, &maps, &amounts);
	return r < 0 ? fail(err, -r, "out of memory") : 0;
}

static const struct read_field demands_fields[] = {
	READ_FIELD(struct demands, containers, "containers", pod_containers_read_containers),
	READ_FIELD(struct demands, inits, "initContainers", pod_containers_read_containers),
	READ_FIELD(struct demands, overhead, "overhead", resources_read),
	READ_FIELD(struct demands, level, "resources", read_demand),
};

static int sum_requests(struct pod *pod, struct demands *all)
{
	return pod->object.minor < RULES_STATUS_SUMS ? sum_by_container(pod, all)
						     : sum_by_kind(pod, all);
}

int pod_containers_read(struct pod *pod, json_t *spec, json_t *status, struct error *err)
{
	struct arena *arena = &pod->object.arena;
	struct demands all = {.is_infeasible = is_resize_infeasible(status)};
	int r, second;

	r = read_some(arena, spec, demands_fields, ARRAY_SIZE(demands_fields), &all, err);
	/*
	 * A pod with an error may run already, so the steps after an error still add up the
	 * resources that the pod holds.
	 */
#define ALSO(call) \
	do { \
		second = (call); \
		if (second < 0 && r == 0) \
			r = second; \
	} while (0)
#define ERR (r < 0 ? NULL : err)
	ALSO(read_statuses(
		pod, &all.containers, json_object_get(status, "containerStatuses"), ERR));
	ALSO(read_statuses(pod, &all.inits, json_object_get(status, "initContainerStatuses"), ERR));
	if (pod->object.minor >= RULES_POD_LEVEL_STATUS)
		ALSO(read_held(pod, status, &all.held, ERR));
	ALSO(make_room_for_ports(pod, &all.containers, &all.inits, ERR));
	if (pod->ports.v) {
		ALSO(add_ports(pod, &all.containers, false, ERR));
		ALSO(add_ports(pod, &all.inits, true, ERR));
	}
	if (sum_requests(pod, &all) < 0)
		return fail(err, ENOMEM, "out of memory");
	ALSO(apply_pod_level(pod, &all, spec, status, ERR));
	if (resources_add(arena, &pod->request, &all.overhead) < 0)
		return fail(err, ENOMEM, "out of memory");
#undef ERR
#undef ALSO
	return r;
}
