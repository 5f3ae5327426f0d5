/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `run` and `set` for a tenant's spec, and the JSON that they become. */
#ifndef CLI_SPEC_OPTIONS_H
#define CLI_SPEC_OPTIONS_H

#include <jansson.h>

#include "cli/cli-text.h"
#include "cmdline/command.h"
#include "spec/spec.h"

/* The options that may change while the tenant runs. */
#define SPEC_OPTIONS_LIVE \
	{"request", "SHARE", TEXT_SPEC_OPTIONS_REQUEST, .letter = 'r'}, \
		{"limit", "SHARE", TEXT_SPEC_OPTIONS_LIMIT, .letter = 'l'}, \
		{"memory", "BYTES", TEXT_SPEC_OPTIONS_MEMORY, .letter = 'm'}, \
		{"class", "CLASS", TEXT_SPEC_OPTIONS_CLASS, .letter = 'c', \
			.choices = "latency standard opportunistic"}, \
	{ \
		"priority", "N", "0 to 100; 0 is class opportunistic (default 50)", .letter = 'p' \
	}

/* The options that choose devices and behaviour, and that cannot change. */
#define SPEC_OPTIONS_PLACE \
	{"memory-policy", "POLICY", \
		"when memory runs out: fail, wait until it fits, or swap to host memory", \
		.choices = "fail wait swap"}, \
		{"count", "N", TEXT_SPEC_OPTIONS_COUNT, .letter = 'n'}, \
		{"model", "MODEL", "device model, such as H200"}, \
		{"device", "DEVICE", TEXT_SPEC_OPTIONS_DEVICE, .letter = 'd'}, \
		{"preferred-anti-affinity", "LABEL", TEXT_SPEC_OPTIONS_PREFERRED_ANTI_AFFINITY}, \
	{ \
		"mode", "MODE", TEXT_SPEC_OPTIONS_MODE, .choices = "auto exclusive local remote" \
	}

/*
 * Returns the options that the user gave, as {"request": "0.3", ...}. The caller owns the result.
 */
json_t *spec_options_json(const struct cli_args *args);

/*
 * Checks the options as those of a new tenant, without a daemon. The message names field, value and
 * range.
 */
int spec_options_check(const struct cli_args *args, struct error *err);
/*
 * Checks the options as a change of an existing tenant. Fields that are not given keep their value,
 * which is not known here.
 */
int spec_options_check_change(const struct cli_args *args, struct error *err);

#endif
