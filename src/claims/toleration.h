/* SPDX-License-Identifier: Apache-2.0 */
/* Taints of devices, and the tolerations of requests. Pure; any thread. */
#ifndef CLAIMS_TOLERATION_H
#define CLAIMS_TOLERATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* Texts are borrowed from JSON; "" if absent. */
struct device_taint {
	const char *key, *value, *effect;
};

struct device_taints {
	struct device_taint *v;
	uint32_t n;
};

struct device_toleration {
	const char *key, *value, *effect, *op;
};

struct device_tolerations {
	struct device_toleration *v;
	uint32_t n;
};

/* A DeviceTaintRule: taints the devices that it selects. NULL selects any. */
struct taint_rule {
	const char *driver, *pool, *device;
	bool has_selector; /* without one the rule selects no device */
	struct device_taint taint;
};

int device_taints_read(struct arena *arena, const json_t *json, struct device_taints *ret_taints);
int device_tolerations_read(
	struct arena *arena, const json_t *json, struct device_tolerations *ret_tolerations);
void taint_rule_read(const json_t *json, struct taint_rule *ret_rule);

bool taint_rule_selects(
	const struct taint_rule *rule, const char *driver, const char *pool, const char *device);

/* Whether the taint keeps new claims off a device, and no toleration covers the taint. */
bool device_taint_keeps_off(
	const struct device_taint *taint, const struct device_tolerations *tolerations);

#endif
