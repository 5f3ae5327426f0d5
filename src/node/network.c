/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /sys/class/net, then /sys/class/infiniband, each in alphabetical order. A card is a bond,
 * or an interface that has a hardware device and belongs to no bond. An overlay is a VXLAN or
 * GENEVE interface over a card that is up. find_port() follows an SR-IOV function to its whole
 * card, and a card to its bond. network_find_hardware() takes an RDMA port's card from the GID
 * table, or else compares `dev_port`. Every stored name has passed assigned_is_network().
 */
#include "node/network.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "spec/quantity.h"

#define VALUE_MAX 4096u /* largest text of a sysfs file */
#define MBIT_MAX UINT64_C(1000000000)
#define ETHERNET 1u /* from linux/if_arp.h */
#define INFINIBAND 32u
#define PORTS_MAX 8u

const char *network_kind_name(enum network_kind kind)
{
	static const char *const names[] = {
		[NETWORK_HOST] = "host",
		[NETWORK_SRIOV] = "sriov",
		[NETWORK_RDMA] = "rdma",
		[NETWORK_OVERLAY] = "overlay",
	};

	return names[kind];
}

/* ---- one file ---- */

/* The text of folder/name without white space around it; "": no such file. */
static struct str network_read_text(const char *folder, const char *name, struct buf *into)
{
	char path[PATH_MAX];

	buf_clear(into);
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path) ||
		file_read(path, into, NULL) < 0)
		return STR("");
	return str_trim(buf_str(into));
}

static bool network_is_text(const char *folder, const char *name, const char *text)
{
	_cleanup_buf_ struct buf buf = BUF_INIT(VALUE_MAX);

	return str_is(network_read_text(folder, name, &buf), text);
}

/* 0 if the file has no number: a speed may be -1, or no text at all. */
static uint32_t network_read_number(const char *folder, const char *name)
{
	_cleanup_buf_ struct buf buf = BUF_INIT(VALUE_MAX);
	uint64_t n;

	return parse_uint(network_read_text(folder, name, &buf), 0, MBIT_MAX, &n, NULL) < 0
		? 0
		: (uint32_t)n;
}

static bool network_is_there(const char *folder, const char *name)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path) &&
		access(path, F_OK) == 0;
}

/* Whether the device's uevent has DEVTYPE=TYPE. */
static bool network_is_type(const char *folder, const char *type)
{
	_cleanup_buf_ struct buf buf = BUF_INIT(VALUE_MAX);
	struct str rest = network_read_text(folder, "uevent", &buf), word;

	while (str_word(&rest, &word))
		if (str_has_prefix(word, STR("DEVTYPE=")) &&
			str_is((struct str){word.p + 8, word.n - 8}, type))
			return true;
	return false;
}

/* The first entry of folder/name with that prefix, without the prefix; "": none. */
static void first_entry(
	const char *folder, const char *name, const char *prefix, char ret[static ASSIGNED_NETWORK])
{
	const size_t n = strlen(prefix);
	char path[PATH_MAX], least[ASSIGNED_NETWORK] = "";
	struct dirent *e;
	DIR *dir = NULL;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path))
		dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		const struct str text = str_from(e->d_name + strnlen(e->d_name, n));

		if (e->d_name[0] == '.' || strncmp(e->d_name, prefix, n) != 0 ||
			!assigned_is_network(text))
			continue;
		if (!least[0] || strcmp(text.p, least) < 0)
			str_copy(least, sizeof(least), text);
	}
	if (dir)
		closedir(dir);
	memcpy(ret, least, sizeof(least));
}

/* ---- cards and the devices on top of them ---- */

/* Whether the interface is a bond, or a card that belongs to no bond. */
static bool network_is_hardware(const char *folder)
{
	if (network_is_there(folder, "bonding"))
		return true;
	return network_is_there(folder, "device") && !network_is_there(folder, "master/bonding");
}

/*
 * Finds the card or bond that carries the device. An SR-IOV function is carried by its whole card.
 */
static void find_port(const char *net, const char *name, char ret[static ASSIGNED_NETWORK])
{
	char path[PATH_MAX], whole[ASSIGNED_NETWORK], *target, *last;

	str_copy(ret, ASSIGNED_NETWORK, str_from(name));
	snprintf(path, sizeof(path), "%s/%s/device/physfn", net, ret);
	first_entry(path, "net", "", whole);
	if (whole[0])
		str_copy(ret, ASSIGNED_NETWORK, str_from(whole));
	snprintf(path, sizeof(path), "%s/%s", net, ret);
	if (!network_is_there(path, "master/bonding"))
		return;
	snprintf(path, sizeof(path), "%s/%s/master", net, ret);
	target = realpath(path, NULL);
	last = target ? strrchr(target, '/') : NULL;
	if (last && assigned_is_network(str_from(last + 1)))
		str_copy(ret, ASSIGNED_NETWORK, str_from(last + 1));
	free(target);
}

static void set_link(struct network_device *one, const char *net, const char *carrier)
{
	char port[ASSIGNED_NETWORK];

	find_port(net, carrier, port);
	if (strcmp(port, one->name) != 0)
		memcpy(one->link, port, sizeof(one->link));
}

static bool network_read_hardware(const char *net, const char *folder, struct network_device *ret)
{
	const uint32_t type = network_read_number(folder, "type");

	if ((type != ETHERNET && type != INFINIBAND) || !network_is_text(folder, "operstate", "up"))
		return false;
	ret->mbit = network_read_number(folder, "speed");
	ret->kind = network_is_there(folder, "device/physfn") ? NETWORK_SRIOV : NETWORK_HOST;
	set_link(ret, net, ret->name);
	return true;
}

/* An overlay has its carrier's capacity. The kernel does not report whether a tunnel is up. */
static bool read_overlay(const char *net, const char *folder, struct network_device *ret)
{
	char carrier[ASSIGNED_NETWORK], lower[PATH_MAX];

	first_entry(folder, "", "lower_", carrier);
	if (!carrier[0] || network_is_text(folder, "operstate", "down") ||
		(!network_is_type(folder, "vxlan") && !network_is_type(folder, "geneve")))
		return false;
	snprintf(lower, sizeof(lower), "%s/%s", net, carrier);
	if (!network_is_hardware(lower) || !network_is_text(lower, "operstate", "up"))
		return false;
	ret->kind = NETWORK_OVERLAY;
	ret->mbit = network_read_number(lower, "speed");
	set_link(ret, net, carrier);
	return true;
}

static void network_add_device(struct network_set *set, const struct network_device *one)
{
	if (one->mbit && set->n < NETWORKS_MAX)
		set->v[set->n++] = *one;
}

static void add_net(struct network_set *set, const char *net, const char *name)
{
	struct network_device one = {.mbit = 0};
	char folder[PATH_MAX];

	if (!assigned_is_network(str_from(name)) ||
		(size_t)snprintf(folder, sizeof(folder), "%s/%s", net, name) >= sizeof(folder))
		return;
	str_copy(one.name, sizeof(one.name), str_from(name));
	if (network_is_hardware(folder) ? network_read_hardware(net, folder, &one)
					: read_overlay(net, folder, &one))
		network_add_device(set, &one);
}

/* ---- RDMA ---- */

/* Reads a rate in Mbit/s. Examples: "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)". */
static uint32_t read_rate(const char *folder)
{
	_cleanup_buf_ struct buf buf = BUF_INIT(VALUE_MAX);
	struct str rest = network_read_text(folder, "rate", &buf), number, unit;
	uint64_t mbit;

	if (!str_word(&rest, &number) || !str_word(&rest, &unit) || !str_is(unit, "Gb/sec") ||
		quantity_parse(number, 1000, &mbit, NULL) < 0 || mbit > MBIT_MAX)
		return 0;
	return (uint32_t)mbit;
}

static int network_is_shown(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* The card of an RDMA device's port; "": unknown. */
static void network_find_hardware(
	const char *net, const char *device, unsigned port, char ret[static ASSIGNED_NETWORK])
{
	_cleanup_buf_ struct buf text = BUF_INIT(VALUE_MAX);
	char path[PATH_MAX + 64];
	struct dirent **entry = NULL;
	struct str name;
	int n;

	ret[0] = '\0';
	snprintf(path, sizeof(path), "%s/ports/%u", device, port);
	name = network_read_text(path, "gid_attrs/ndevs/0", &text);
	if (assigned_is_network(name)) {
		str_copy(ret, ASSIGNED_NETWORK, name);
		return;
	}
	/* InfiniBand has only the reverse link, from device to interface. */
	snprintf(path, sizeof(path), "%s/device/net", device);
	n = scandir(path, &entry, network_is_shown, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%.63s", net, entry[i]->d_name);
		if (!ret[0] && assigned_is_network(str_from(entry[i]->d_name)) &&
			network_read_number(path, "dev_port") == port - 1)
			str_copy(ret, ASSIGNED_NETWORK, str_from(entry[i]->d_name));
		free(entry[i]);
	}
	free(entry);
}

static void add_port(struct network_set *set, const char *net, const char *device, const char *name,
	unsigned port)
{
	_cleanup_buf_ struct buf text = BUF_INIT(VALUE_MAX);
	struct network_device one = {.kind = NETWORK_RDMA};
	char folder[PATH_MAX], card[ASSIGNED_NETWORK];

	if ((size_t)snprintf(folder, sizeof(folder), "%s/ports/%u", device, port) >=
			sizeof(folder) ||
		!network_is_text(folder, "state", "4: ACTIVE"))
		return;
	network_find_hardware(net, device, port, card);
	if (card[0])
		set_link(&one, net, card);
	buf_addf(&text, port == 1 ? "%s" : "%s:%u", name, port);
	if (!assigned_is_network(buf_str(&text)))
		return;
	str_copy(one.name, sizeof(one.name), buf_str(&text));
	one.mbit = read_rate(folder);
	network_add_device(set, &one);
}

static void add_rdma(
	struct network_set *set, const char *net, const char *infiniband, const char *name)
{
	char device[PATH_MAX];

	/* An RDMA device that is only software has no device entry. */
	if ((size_t)snprintf(device, sizeof(device), "%s/%s", infiniband, name) >= sizeof(device) ||
		!network_is_there(device, "device"))
		return;
	for (unsigned port = 1; port <= PORTS_MAX; port++)
		add_port(set, net, device, name, port);
}

/* ---- all network devices ---- */

void network_find(const char *sys, struct network_set *ret)
{
	char net[PATH_MAX / 4], infiniband[PATH_MAX / 4];
	struct dirent **entry = NULL;
	int n;

	ret->n = 0;
	if ((size_t)snprintf(net, sizeof(net), "%s/class/net", sys) >= sizeof(net))
		return;
	snprintf(infiniband, sizeof(infiniband), "%s/class/infiniband", sys);
	n = scandir(net, &entry, network_is_shown, alphasort);
	for (int i = 0; i < n; i++) {
		add_net(ret, net, entry[i]->d_name);
		free(entry[i]);
	}
	free(TAKE_PTR(entry));
	n = scandir(infiniband, &entry, network_is_shown, alphasort);
	for (int i = 0; i < n; i++) {
		add_rdma(ret, net, infiniband, entry[i]->d_name);
		free(entry[i]);
	}
	free(entry);
}
