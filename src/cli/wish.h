/* SPDX-License-Identifier: Apache-2.0 */
/* The options that speak of a tenant's spec, for `run` and `set`, and the JSON made of them. */
#pragma once

#include <jansson.h>

#include "cmdline/command.h"
#include "spec/spec.h"

/* The numbers that may change while the tenant runs ... */
#define WISH_OPTIONS_LIVE \
	{"request", "SHARE", \
		"share of a device's time that is guaranteed: 0.001 to 1, or a whole number of " \
		"exclusive devices", \
		.letter = 'r'}, \
		{"limit", "SHARE", \
			"most of a device's time it may take when others leave time over: " \
			"request to 1", \
			.letter = 'l'}, \
		{"memory", "BYTES", \
			"device memory: bytes, a quantity such as 4Gi (as docker's 4g), or a " \
			"percentage such as 25%", \
			.letter = 'm'}, \
		{"class", "CLASS", \
			"latency (goes before others), standard, or opportunistic (in what the " \
			"others leave; its request is part of the sum of requests all the same)", \
			.letter = 'c', .choices = "latency standard opportunistic"}, \
	{ \
		"priority", "N", "0 to 100; 0 is opportunistic (default 50)", .letter = 'p' \
	}

/* ... and where it runs, which cannot. */
#define WISH_OPTIONS_PLACE \
	{"memory-policy", "POLICY", \
		"when memory runs out: fail (out of memory), wait (until it fits) or swap", \
		.choices = "fail wait swap"}, \
		{"count", "N", \
			"number of devices, that share and that memory on each: 1 to 16 (default " \
			"1)", \
			.letter = 'n'}, \
		{"model", "MODEL", "device model, such as H200"}, \
		{"device", "DEVICE", \
			"devices: UUIDs or indexes, as `divvy devices` shows them; the program " \
			"sees them in that order, whatever the order here", \
			.letter = 'd'}, \
		{"preferred-anti-affinity", "LABEL", \
			"where it has a choice, on the device with the fewest others of the " \
			"label"}, \
	{ \
		"mode", "MODE", \
			"auto, exclusive (a whole device, passed through), local (shared) or " \
			"remote (default auto)", \
			.choices = "auto exclusive local remote" \
	}

/* Those that were given, as {"request": "0.3", ...}. The caller's. */
json_t *wish_json(const struct cli_args *args);

/* Checks them as a new tenant's, without a daemon: the sentence names field, value and range. */
int wish_check(const struct cli_args *args, struct error *err);
/* The same for a tenant that there is: what is not given stays, and is not known here. */
int wish_check_change(const struct cli_args *args, struct error *err);
