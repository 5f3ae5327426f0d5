/* SPDX-License-Identifier: Apache-2.0 */
/* The options that speak of a tenant's spec, for `run` and `set`, and the JSON made of them. */
#pragma once

#include <jansson.h>

#include "cmdline/option.h"
#include "spec/spec.h"

/* The numbers that may change while the tenant runs ... */
#define WISH_OPTIONS_LIVE \
	{"request", 'r', CLI_VALUE, "SHARE", NULL, \
		"share of a device's time that is guaranteed: 0.001 to 1, or a whole number of " \
		"exclusive devices"}, \
		{"limit", 'l', CLI_VALUE, "SHARE", NULL, \
			"most of a device's time it may take when others leave time over: " \
			"request to 1"}, \
		{"memory", 'm', CLI_VALUE, "BYTES", NULL, \
			"device memory: bytes, a quantity such as 4Gi (as docker's 4g), or a " \
			"percentage such as 25%"}, \
		{"class", 'c', CLI_VALUE, "CLASS", "latency standard opportunistic", \
			"latency (goes before others), standard, or opportunistic (in what the " \
			"others leave; its request is part of the sum of requests all the same)"}, \
	{ \
		"priority", 'p', CLI_VALUE, "N", NULL, "0 to 100; 0 is opportunistic (default 50)" \
	}

/* ... and where it runs, which cannot. */
#define WISH_OPTIONS_PLACE \
	{"memory-policy", 0, CLI_VALUE, "POLICY", "fail wait swap", \
		"when memory runs out: fail (out of memory), wait (until it fits) or swap"}, \
		{"count", 'n', CLI_VALUE, "N", NULL, \
			"number of devices, that share and that memory on each: 1 to 16 (default " \
			"1)"}, \
		{"model", 0, CLI_VALUE, "MODEL", NULL, "device model, such as H200"}, \
		{"device", 'd', CLI_VALUE, "DEVICE", NULL, \
			"devices: UUIDs or indexes, as `divvy devices` shows them; the program " \
			"sees them in that order, whatever the order here"}, \
		{"preferred-anti-affinity", 0, CLI_VALUE, "LABEL", NULL, \
			"where it has a choice, on the device with the fewest others of the " \
			"label"}, \
	{ \
		"mode", 0, CLI_VALUE, "MODE", "auto exclusive local remote", \
			"auto, exclusive (a whole device, passed through), local (shared) or " \
			"remote (default auto)" \
	}

/* Those that were given, as {"request": "0.3", ...}. The caller's. */
json_t *wish_json(const struct cli_args *args);

/* Checks them as a new tenant's, without a daemon: the sentence names field, value and range. */
int wish_check(const struct cli_args *args, struct error *err);
/* The same for a tenant that there is: what is not given stays, and is not known here. */
int wish_check_change(const struct cli_args *args, struct error *err);
