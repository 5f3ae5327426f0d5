/* SPDX-License-Identifier: Apache-2.0 */
/* Sums up the requests of a pod's containers: see pod-containers.h. */
#include "kuberules/pod-containers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fields/read.h"

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

struct container {
	const char *name;
	struct resources request;
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

int pod_containers_read_claims(struct arena *arena, json_t *value, void *into, struct error *err)
{
	if (json_array_size(value))
		return fail(err, ENOTSUP,
			"dynamic resource allocation is not supported; use divvy.gpu annotations");
	return 0;
}

static const struct read_field demand_fields[] = {
	READ_FIELD(struct demand, requests, "requests", read_borrowed),
	READ_FIELD(struct demand, limits, "limits", read_borrowed),
	{"claims", pod_containers_read_claims, 0},
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
	READ_NOTHING("restartPolicyRules"),
	READ_NOTHING("securityContext"),
	READ_NOTHING("startupProbe"),
	READ_NOTHING("stdin"),
	READ_NOTHING("stdinOnce"),
	READ_NOTHING("terminationMessagePath"),
	READ_NOTHING("terminationMessagePolicy"),
	READ_NOTHING("tty"),
	READ_NOTHING("volumeDevices"),
	READ_NOTHING("volumeMounts"),
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

/* The amounts that a container's status reports in `resources`. */
static const struct read_field held_fields[] = {
	READ_FIELD(struct demand, requests, "requests", read_borrowed),
};

static int raise_to_held(
	struct pod *pod, struct resources *request, json_t *held, struct error *err)
{
	struct resources amounts = {0};
	int r;

	if (!held)
		return 0;
	r = resources_read(&pod->object.arena, held, &amounts, err);
	if (r == 0 && resources_raise(&pod->object.arena, request, &amounts) < 0)
		r = fail(err, ENOMEM, "out of memory");
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

static int apply_status(struct pod *pod, struct containers *containers, json_t *statuses,
	bool is_infeasible, struct error *err)
{
	json_t *one;
	size_t i;
	int r = 0;

	json_array_foreach(statuses, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));
		json_t *resources = json_object_get(one, "resources");
		struct demand held = {0};

		/*
		 * Statuses normally have the order of the containers. A status in another position
		 * is ignored, because a search for its container would make the cost quadratic.
		 */
		if (!name || i >= containers->n || !containers->v[i].name ||
			strcmp(containers->v[i].name, name) != 0 || !json_is_object(resources))
			continue;
		r = read_some(&pod->object.arena, resources, held_fields, ARRAY_SIZE(held_fields),
			&held, err);
		if (r < 0)
			return r;
		if (is_infeasible)
			containers->v[i].request = (struct resources){0};
		r = raise_to_held(pod, &containers->v[i].request, held.requests, err);
		if (r == 0)
			r = raise_to_held(pod, &containers->v[i].request,
				json_object_get(one, "allocatedResources"), err);
		if (r < 0)
			return r;
	}
	return 0;
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

/*
 * Sums up the pod's request for each resource: the larger of two amounts. One is the sum of
 * containers and sidecars, which run together. The other is the most that an init container needs
 * together with the sidecars started before it.
 */
static int pod_containers_sum_requests(
	struct pod *pod, const struct containers *containers, const struct containers *inits)
{
	struct arena *arena = &pod->object.arena;
	struct resources sidecars = {0}, moment;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < containers->n; i++)
		r = resources_add(arena, &pod->request, &containers->v[i].request);
	for (uint32_t i = 0; r == 0 && i < inits->n; i++)
		if (inits->v[i].is_sidecar)
			r = resources_add(arena, &pod->request, &inits->v[i].request);
	for (uint32_t i = 0; r == 0 && i < inits->n; i++) {
		moment = (struct resources){0};
		r = resources_add(arena, &moment, &sidecars);
		if (r == 0)
			r = resources_add(arena, &moment, &inits->v[i].request);
		if (r == 0)
			r = resources_raise(arena, &pod->request, &moment);
		if (r == 0 && inits->v[i].is_sidecar)
			r = resources_add(arena, &sidecars, &inits->v[i].request);
	}
	return r;
}

/* Amounts in spec.resources, for the whole pod, replace the sums of the containers. */
static int apply_pod_level(
	struct pod *pod, const struct resources *level, json_t *resources, struct error *err)
{
	static const char *const fields[] = {"requests", "limits"};
	struct arena *arena = &pod->object.arena;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++) {
		json_t *map = json_object_get(resources, fields[i]);

		if (json_object_get(map, "cpu"))
			r = resources_set(arena, &pod->request, "cpu", level->cpu_milli);
		if (r == 0 && json_object_get(map, "memory"))
			r = resources_set(arena, &pod->request, "memory", level->memory_bytes);
	}
	for (uint32_t i = 0; r == 0 && i < level->n_others; i++) {
		if (!str_has_prefix(str_from(level->others[i].name), STR("hugepages-")))
			return fail(err, ENOTSUP,
				"resources: %.64s: a pod may request only cpu, memory and "
				"hugepages as a whole",
				level->others[i].name);
		r = resources_set(arena, &pod->request, level->others[i].name, level->others[i].n);
	}
	return r < 0 ? fail(err, -r, "out of memory") : 0;
}

struct demands {
	struct containers containers, inits;
	struct resources overhead, level;
};

static const struct read_field demands_fields[] = {
	READ_FIELD(struct demands, containers, "containers", pod_containers_read_containers),
	READ_FIELD(struct demands, inits, "initContainers", pod_containers_read_containers),
	READ_FIELD(struct demands, overhead, "overhead", resources_read),
	READ_FIELD(struct demands, level, "resources", read_demand),
};

int pod_containers_read(struct pod *pod, json_t *spec, json_t *status, struct error *err)
{
	struct arena *arena = &pod->object.arena;
	struct demands all = {0};
	bool is_infeasible = is_resize_infeasible(status);
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
	ALSO(apply_status(pod, &all.containers, json_object_get(status, "containerStatuses"),
		is_infeasible, ERR));
	ALSO(apply_status(pod, &all.inits, json_object_get(status, "initContainerStatuses"),
		is_infeasible, ERR));
	ALSO(make_room_for_ports(pod, &all.containers, &all.inits, ERR));
	if (pod->ports.v) {
		ALSO(add_ports(pod, &all.containers, false, ERR));
		ALSO(add_ports(pod, &all.inits, true, ERR));
	}
	if (pod_containers_sum_requests(pod, &all.containers, &all.inits) < 0)
		return fail(err, ENOMEM, "out of memory");
	ALSO(apply_pod_level(pod, &all.level, json_object_get(spec, "resources"), ERR));
	if (resources_add(arena, &pod->request, &all.overhead) < 0)
		return fail(err, ENOMEM, "out of memory");
#undef ERR
#undef ALSO
	return r;
}
