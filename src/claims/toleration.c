/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and matches taints of devices: see toleration.h. An effect that is not NoSchedule or
 * NoExecute keeps no claim off, as the API says. Any thread.
 */
#include "claims/toleration.h"

#include <errno.h>
#include <string.h>

static const char *toleration_text(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));

	return text ? text : "";
}

static struct device_taint device_taint_read(const json_t *json)
{
	return (struct device_taint){toleration_text(json, "key"), toleration_text(json, "value"),
		toleration_text(json, "effect")};
}

int device_taints_read(struct arena *arena, const json_t *json, struct device_taints *ret)
{
	const size_t n = json_array_size(json);
	struct device_taint *v = arena_take_array(arena, n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		v[i] = device_taint_read(json_array_get(json, i));
	*ret = (struct device_taints){v, (uint32_t)n};
	return 0;
}

int device_tolerations_read(struct arena *arena, const json_t *json, struct device_tolerations *ret)
{
	const size_t n = json_array_size(json);
	struct device_toleration *v = arena_take_array(arena, n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_array_get(json, i);

		v[i] = (struct device_toleration){toleration_text(one, "key"),
			toleration_text(one, "value"), toleration_text(one, "effect"),
			toleration_text(one, "operator")};
	}
	*ret = (struct device_tolerations){v, (uint32_t)n};
	return 0;
}

void taint_rule_read(const json_t *json, struct taint_rule *ret)
{
	const json_t *spec = json_object_get(json, "spec");
	const json_t *selector = json_object_get(spec, "deviceSelector");

	*ret = (struct taint_rule){.has_selector = json_is_object(selector),
		.driver = json_string_value(json_object_get(selector, "driver")),
		.pool = json_string_value(json_object_get(selector, "pool")),
		.device = json_string_value(json_object_get(selector, "device")),
		.taint = device_taint_read(json_object_get(spec, "taint"))};
}

bool taint_rule_selects(
	const struct taint_rule *rule, const char *driver, const char *pool, const char *device)
{
	return rule->has_selector && (!rule->driver || !strcmp(rule->driver, driver)) &&
		(!rule->pool || !strcmp(rule->pool, pool)) &&
		(!rule->device || !strcmp(rule->device, device));
}

static bool device_taint_is_covered(
	const struct device_taint *taint, const struct device_toleration *toleration)
{
	if (*toleration->effect && strcmp(toleration->effect, taint->effect) != 0)
		return false;
	if (*toleration->key && strcmp(toleration->key, taint->key) != 0)
		return false;
	if (!*toleration->op || !strcmp(toleration->op, "Equal"))
		return !strcmp(toleration->value, taint->value);
	return !strcmp(toleration->op, "Exists");
}

bool device_taint_keeps_off(
	const struct device_taint *taint, const struct device_tolerations *tolerations)
{
	if (strcmp(taint->effect, "NoSchedule") != 0 && strcmp(taint->effect, "NoExecute") != 0)
		return false;
	for (uint32_t i = 0; i < tolerations->n; i++)
		if (device_taint_is_covered(taint, &tolerations->v[i]))
			return false;
	return true;
}
