/* SPDX-License-Identifier: Apache-2.0 */
#include "restricted.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "kube/kube-json.h"

/* ---- helpers of the rules ---- */

typedef bool container_fn(const json_t *pod, const json_t *container);

static const json_t *spec_of(const json_t *pod)
{
	return json_object_get(pod, "spec");
}

static bool is_any(const json_t *pod, container_fn *fn)
{
	static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};

	for (size_t l = 0; l < ARRAY_SIZE(lists); l++) {
		json_t *list = json_object_get(spec_of(pod), lists[l]), *container;
		size_t i;

		json_array_foreach(list, i, container)
			if (fn(pod, container))
				return true;
	}
	return false;
}

static const json_t *context_of(const json_t *object)
{
	return json_object_get(object, "securityContext");
}

static bool is_in(const json_t *value, const char *const *allowed, size_t n)
{
	const char *text = json_string_value(value);

	for (size_t i = 0; text && i < n; i++)
		if (!strcmp(text, allowed[i]))
			return true;
	return false;
}

static bool is_set_and_not_in(const json_t *value, const char *const *allowed, size_t n)
{
	return value && !json_is_null(value) && !is_in(value, allowed, n);
}

static bool is_text(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && *text;
}

/* Returns whether an annotation whose name begins with `prefix` has a value that is not allowed. */
static bool has_annotation_beside(
	const json_t *pod, const char *prefix, const char *const *allowed, size_t n)
{
	json_t *all = kube_json_at(pod, "metadata", "annotations", NULL), *value;
	const char *key;

	json_object_foreach(all, key, value) {
		const char *text = json_string_value(value);

		if (str_has_prefix(str_from(key), str_from(prefix)) && !is_in(value, allowed, n) &&
			!(text && !strncmp(text, "localhost/", strlen("localhost/"))))
			return true;
	}
	return false;
}

/* ---- the baseline ---- */

static bool has_host_process(const json_t *pod, const json_t *container)
{
	return json_is_true(
		kube_json_at(context_of(container), "windowsOptions", "hostProcess", NULL));
}

static const char *host_process(const json_t *pod)
{
	return has_host_process(pod, spec_of(pod)) || is_any(pod, has_host_process)
		? "securityContext.windowsOptions.hostProcess"
		: NULL;
}

static const char *host_namespaces(const json_t *pod)
{
	static const char *const fields[] = {"hostNetwork", "hostPID", "hostIPC"};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (json_is_true(json_object_get(spec_of(pod), fields[i])))
			return fields[i];
	return NULL;
}

static bool is_privileged(const json_t *pod, const json_t *container)
{
	return json_is_true(json_object_get(context_of(container), "privileged"));
}

static const char *privileged(const json_t *pod)
{
	return is_any(pod, is_privileged) ? "securityContext.privileged" : NULL;
}

static const char *host_path(const json_t *pod)
{
	json_t *all = json_object_get(spec_of(pod), "volumes"), *volume;
	size_t i;

	json_array_foreach(all, i, volume)
		if (json_object_get(volume, "hostPath"))
			return "volumes[*].hostPath";
	return NULL;
}

static bool has_host_port(const json_t *pod, const json_t *container)
{
	json_t *all = json_object_get(container, "ports"), *port;
	size_t i;

	json_array_foreach(all, i, port)
		if (json_integer_value(json_object_get(port, "hostPort")))
			return true;
	return false;
}

static const char *host_ports(const json_t *pod)
{
	return is_any(pod, has_host_port) ? "ports[*].hostPort" : NULL;
}

static bool names_host(const json_t *handler)
{
	return is_text(kube_json_at(handler, "httpGet", "host", NULL)) ||
		is_text(kube_json_at(handler, "tcpSocket", "host", NULL));
}

static bool has_host_probe(const json_t *pod, const json_t *container)
{
	static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"},
				 *const hooks[] = {"postStart", "preStop"};
	bool is = false;

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		is |= names_host(json_object_get(container, probes[i]));
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++)
		is |= names_host(kube_json_at(container, "lifecycle", hooks[i], NULL));
	return is;
}

static const char *host_probes(const json_t *pod)
{
	return is_any(pod, has_host_probe) ? "a probe's or a hook's host" : NULL;
}

static bool has_app_armor(const json_t *pod, const json_t *container)
{
	static const char *const allowed[] = {"RuntimeDefault", "Localhost"};

	return is_set_and_not_in(
		kube_json_at(context_of(container), "appArmorProfile", "type", NULL), allowed,
		ARRAY_SIZE(allowed));
}

static const char *app_armor(const json_t *pod)
{
	static const char *const allowed[] = {"", "runtime/default"};

	if (has_annotation_beside(pod, "container.apparmor.security.beta.kubernetes.io/", allowed,
		    ARRAY_SIZE(allowed)))
		return "annotation container.apparmor.security.beta.kubernetes.io/*";
	return has_app_armor(pod, spec_of(pod)) || is_any(pod, has_app_armor)
		? "securityContext.appArmorProfile.type"
		: NULL;
}

static bool has_selinux(const json_t *pod, const json_t *container)
{
	static const char *const types[] = {
		"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"};
	const json_t *options = json_object_get(context_of(container), "seLinuxOptions");

	return is_set_and_not_in(json_object_get(options, "type"), types, ARRAY_SIZE(types)) ||
		is_text(json_object_get(options, "user")) ||
		is_text(json_object_get(options, "role"));
}

static const char *selinux(const json_t *pod)
{
	return has_selinux(pod, spec_of(pod)) || is_any(pod, has_selinux)
		? "securityContext.seLinuxOptions"
		: NULL;
}

static bool has_proc_mount(const json_t *pod, const json_t *container)
{
	static const char *const allowed[] = {"", "Default"};

	return is_set_and_not_in(
		json_object_get(context_of(container), "procMount"), allowed, ARRAY_SIZE(allowed));
}

static const char *proc_mount(const json_t *pod)
{
	return is_any(pod, has_proc_mount) ? "securityContext.procMount" : NULL;
}

static const char *sysctls(const json_t *pod)
{
	static const char *const allowed[] = {"kernel.shm_rmid_forced",
		"net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
		"net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
		"net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"};
	json_t *all = json_object_get(context_of(spec_of(pod)), "sysctls"), *one;
	size_t i;

	json_array_foreach(all, i, one)
		if (!is_in(json_object_get(one, "name"), allowed, ARRAY_SIZE(allowed)))
			return "securityContext.sysctls[*].name";
	return NULL;
}

/* ---- further controls of the restricted profile ---- */

static const char *volume_types(const json_t *pod)
{
	static const char *const allowed[] = {"configMap", "csi", "downwardAPI", "emptyDir",
		"ephemeral", "persistentVolumeClaim", "projected", "secret"};
	json_t *all = json_object_get(spec_of(pod), "volumes"), *volume;
	size_t i;

	json_array_foreach(all, i, volume) {
		bool is_allowed = false;

		for (size_t k = 0; k < ARRAY_SIZE(allowed); k++)
			is_allowed |= json_object_get(volume, allowed[k]) != NULL;
		if (!is_allowed)
			return "volumes[*]";
	}
	return NULL;
}

static bool may_escalate(const json_t *pod, const json_t *container)
{
	return !json_is_false(json_object_get(context_of(container), "allowPrivilegeEscalation"));
}

static const char *escalation(const json_t *pod)
{
	return is_any(pod, may_escalate) ? "securityContext.allowPrivilegeEscalation" : NULL;
}

static bool may_be_root(const json_t *pod, const json_t *container)
{
	const json_t *own = json_object_get(context_of(container), "runAsNonRoot");

	return !json_is_true(own ? own : json_object_get(context_of(spec_of(pod)), "runAsNonRoot"));
}

static const char *non_root(const json_t *pod)
{
	return is_any(pod, may_be_root) ? "securityContext.runAsNonRoot" : NULL;
}

static bool is_root(const json_t *pod, const json_t *container)
{
	const json_t *user = json_object_get(context_of(container), "runAsUser");

	return user && json_integer_value(user) == 0;
}

static const char *non_root_user(const json_t *pod)
{
	return is_root(pod, spec_of(pod)) || is_any(pod, is_root) ? "securityContext.runAsUser"
								  : NULL;
}

static const json_t *seccomp_of(const json_t *object)
{
	return kube_json_at(context_of(object), "seccompProfile", "type", NULL);
}

static bool lacks_seccomp(const json_t *pod, const json_t *container)
{
	static const char *const allowed[] = {"RuntimeDefault", "Localhost"};
	const json_t *own = seccomp_of(container);

	return !is_in(own ? own : seccomp_of(spec_of(pod)), allowed, ARRAY_SIZE(allowed));
}

static const char *seccomp(const json_t *pod)
{
	static const char *const allowed[] = {"runtime/default", "docker/default"},
				 *const types[] = {"RuntimeDefault", "Localhost"};

	if (has_annotation_beside(
		    pod, "seccomp.security.alpha.kubernetes.io/", allowed, ARRAY_SIZE(allowed)) ||
		has_annotation_beside(pod, "container.seccomp.security.alpha.kubernetes.io/",
			allowed, ARRAY_SIZE(allowed)))
		return "annotation seccomp.security.alpha.kubernetes.io/*";
	if (is_set_and_not_in(seccomp_of(spec_of(pod)), types, ARRAY_SIZE(types)))
		return "spec.securityContext.seccompProfile.type";
	return is_any(pod, lacks_seccomp) ? "securityContext.seccompProfile.type" : NULL;
}

static bool has_capabilities(const json_t *pod, const json_t *container)
{
	json_t *add = kube_json_at(context_of(container), "capabilities", "add", NULL),
	       *drop = kube_json_at(context_of(container), "capabilities", "drop", NULL), *one;
	static const char *const all[] = {"ALL"}, *const allowed[] = {"NET_BIND_SERVICE"};
	bool is_dropped = false;
	size_t i;

	json_array_foreach(add, i, one)
		if (!is_in(one, allowed, ARRAY_SIZE(allowed)))
			return true;
	json_array_foreach(drop, i, one)
		is_dropped |= is_in(one, all, ARRAY_SIZE(all));
	return !is_dropped;
}

static const char *capabilities(const json_t *pod)
{
	return is_any(pod, has_capabilities) ? "securityContext.capabilities" : NULL;
}

const struct restricted_rule restricted_rules[] = {
	{"HostProcess", host_process},
	{"Host Namespaces", host_namespaces},
	{"Privileged Containers", privileged},
	{"HostPath Volumes", host_path},
	{"Host Ports", host_ports},
	{"Host Probes and Lifecycle Hooks", host_probes},
	{"AppArmor", app_armor},
	{"SELinux", selinux},
	{"/proc Mount Type", proc_mount},
	{"Sysctls", sysctls},
	{"Volume Types", volume_types},
	{"Privilege Escalation", escalation},
	{"Running as Non-root", non_root},
	{"Running as Non-root user", non_root_user},
	{"Seccomp", seccomp},
	{"Capabilities", capabilities},
};

const size_t restricted_n_rules = ARRAY_SIZE(restricted_rules);
