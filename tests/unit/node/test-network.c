/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network devices from recorded trees of sysfs: files with their text, and "-> " links. The paths
 * are the kernel's; files that network_find() does not read are left out.
 */
#include "unit.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "node/network.h"

struct entry {
	const char *path, *text;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void make(const char *top, const struct entry *e)
{
	char path[PATH_MAX], folder[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", top, e->path);
	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	assert_ok(folder_make(folder, 0755, NULL));
	if (!e->text)
		assert_ok(folder_make(path, 0755, NULL));
	else if (!strncmp(e->text, "-> ", 3))
		assert_int_equal(symlink(e->text + 3, path), 0);
	else
		assert_ok(file_replace(path, str_from(e->text), 0644, NULL));
}

/* Formats the devices found as "eth0 host 10000; mlx5_0 rdma 100000 in eth0; ". */
static void find(const struct entry *tree, char ret[static 4096])
{
	char top[] = "/tmp/divvy-network-XXXXXX";
	_cleanup_buf_ struct buf text = BUF_INIT(4000);
	struct network_set set;

	assert_non_null(mkdtemp(top));
	for (; tree->path; tree++)
		make(top, tree);
	network_find(top, &set);
	assert_int_equal(nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	for (uint32_t i = 0; i < set.n; i++)
		buf_addf(&text, "%s %s %u%s%s; ", set.v[i].name, network_kind_name(set.v[i].kind),
			set.v[i].mbit, set.v[i].link[0] ? " in " : "", set.v[i].link);
	snprintf(ret, 4096, "%s", buf_text(&text));
}

#define NET "class/net/"
#define IB "class/infiniband/"
#define NIC(name, speed, state) \
	{NET name "/device", NULL}, {NET name "/type", "1\n"}, {NET name "/speed", speed "\n"}, \
	{ \
		NET name "/operstate", state "\n" \
	}
#define VIRTUAL(name, type) \
	{NET name "/type", "1\n"}, {NET name "/operstate", "up\n"}, \
		{NET name "/speed", "10000\n"}, \
	{ \
		NET name "/uevent", "DEVTYPE=" type "\nINTERFACE=" name "\nIFINDEX=7\n" \
	}

static const struct {
	const char *says;
	struct entry tree[40];
} cases[] = {
	{"", {{"class", NULL}}},
	{"", {{NET, NULL}}},
	/*
	 * A node with one network card, docker's bridge, a CNI whose overlay uses the card, and
	 * pods.
	 */
	{"eth0 host 10000; flannel.1 overlay 10000 in eth0; ",
		{NIC("eth0", "10000", "up"), {NET "lo/type", "772\n"},
			{NET "lo/operstate", "unknown\n"}, VIRTUAL("docker0", "bridge"),
			VIRTUAL("cni0", "bridge"), VIRTUAL("veth0a1b2c", "veth"),
			VIRTUAL("flannel.1", "vxlan"), {NET "flannel.1/lower_eth0", "-> ../eth0"},
			VIRTUAL("eth0.100", "vlan"), {NET "eth0.100/lower_eth0", "-> ../eth0"}}},
	/* Interfaces that are down, that report no speed, or whose speed no kernel writes. */
	{"eno3 host 1000; ",
		{NIC("eno1", "25000", "down"), NIC("eno2", "-1", "up"), NIC("eno3", "1000", "up"),
			NIC("eno4", "", "up"), NIC("eno5", "fast", "up"),
			NIC("eno6", "99999999999999999999", "up"), NIC("eno7", "0", "up"),
			{NET "eno8/device", NULL}, {NET "eno9", "a file\n"},
			NIC("a,b", "1000", "up")}},
	/*
	 * Two virtual functions of one card. The card has an RDMA device, and so has one of the
	 * functions.
	 */
	{"ens1f0 host 100000; ens1f0v0 sriov 100000 in ens1f0; ens1f0v1 sriov 100000 in ens1f0; "
	 "mlx5_0 rdma 100000 in ens1f0; mlx5_1 rdma 100000 in ens1f0; ",
		{NIC("ens1f0", "100000", "up"), {NET "ens1f0/device/sriov_numvfs", "2\n"},
			NIC("ens1f0v0", "100000", "up"),
			{NET "ens1f0v0/device/physfn/net/ens1f0", NULL},
			NIC("ens1f0v1", "100000", "up"),
			{NET "ens1f0v1/device/physfn/net/ens1f0", NULL}, {IB "mlx5_0/device", NULL},
			{IB "mlx5_0/ports/1/state", "4: ACTIVE\n"},
			{IB "mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n"},
			{IB "mlx5_0/ports/1/gid_attrs/ndevs/0", "ens1f0\n"},
			{IB "mlx5_1/device", NULL}, {IB "mlx5_1/ports/1/state", "4: ACTIVE\n"},
			{IB "mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)\n"},
			{IB "mlx5_1/ports/1/gid_attrs/ndevs/0", "ens1f0v0\n"}}},
	/*
	 * Two bonded cards. The bond carries their virtual function, although the function belongs
	 * to one card.
	 */
	{"bond0 host 50000; eth1v0 sriov 25000 in bond0; ",
		{NIC("eth0", "25000", "up"), {NET "eth0/master", "-> ../bond0"},
			NIC("eth1", "25000", "up"), {NET "eth1/master", "-> ../bond0"},
			VIRTUAL("bond0", "bond"), {NET "bond0/bonding/mode", "802.3ad 4\n"},
			{NET "../net/bond0/speed", "50000\n"}, NIC("eth1v0", "25000", "up"),
			{NET "eth1v0/device/physfn/net/eth1", NULL}}},
	/* A card that is part of a bridge still counts as a card. */
	{"eth0 host 10000; ",
		{NIC("eth0", "10000", "up"), VIRTUAL("br0", "bridge"),
			{NET "eth0/master", "-> ../br0"}}},
	/* InfiniBand alone: two ports, one of them down; an old adapter; a software adapter. */
	{"ib0 host 40000; ib1 host 40000; mlx4_0 rdma 40000 in ib1; mthca0:2 rdma 2500; ",
		{{NET "ib0/device", NULL}, {NET "ib0/type", "32\n"}, {NET "ib0/speed", "40000\n"},
			{NET "ib0/operstate", "up\n"}, {NET "ib0/dev_port", "1\n"},
			{NET "ib1/device", NULL}, {NET "ib1/type", "32\n"},
			{NET "ib1/speed", "40000\n"}, {NET "ib1/operstate", "up\n"},
			{NET "ib1/dev_port", "0\n"}, {IB "mlx4_0/device/net/ib0", NULL},
			{IB "mlx4_0/device/net/ib1", NULL},
			{IB "mlx4_0/ports/1/state", "4: ACTIVE\n"},
			{IB "mlx4_0/ports/1/rate", "40 Gb/sec (4X QDR)\n"},
			{IB "mlx4_0/ports/2/state", "1: DOWN\n"},
			{IB "mlx4_0/ports/2/rate", "10 Gb/sec (4X SDR)\n"},
			{IB "mthca0/device", NULL}, {IB "mthca0/ports/2/state", "4: ACTIVE\n"},
			{IB "mthca0/ports/2/rate", "2.5 Gb/sec (1X SDR)\n"},
			{IB "rxe0/ports/1/state", "4: ACTIVE\n"},
			{IB "rxe0/ports/1/rate", "10 Gb/sec (4X SDR)\n"}}},
	/* RDMA rates that cannot be read. */
	{"",
		{{IB "a/device", NULL}, {IB "a/ports/1/state", "4: ACTIVE\n"},
			{IB "a/ports/1/rate", "100\n"}, {IB "b/device", NULL},
			{IB "b/ports/1/state", "4: ACTIVE\n"}, {IB "b/ports/1/rate", "\n"},
			{IB "c/device", NULL}, {IB "c/ports/1/state", "4: ACTIVE\n"},
			{IB "c/ports/1/rate", "-5 Gb/sec\n"}, {IB "d/device", NULL},
			{IB "d/ports/1/state", "4: ACTIVE\n"},
			{IB "d/ports/1/rate", "1e30 Gb/sec\n"}, {IB "e/device", NULL},
			{IB "e/ports/1/state", "4: ACTIVE\n"},
			{IB "e/ports/1/rate", "100 Mb/sec\n"}}},
	/*
	 * Overlays over an interface that is down, over no interface, and over another overlay;
	 * links to nowhere.
	 */
	{"eth1 host 1000; ",
		{NIC("eth0", "1000", "down"), NIC("eth1", "1000", "up"), VIRTUAL("vx0", "vxlan"),
			{NET "vx0/lower_eth0", "-> ../eth0"}, VIRTUAL("vx1", "vxlan"),
			VIRTUAL("vx2", "vxlan"), {NET "vx2/lower_vx0", "-> ../vx0"},
			VIRTUAL("vx3", "geneve"), {NET "vx3/lower_gone", "-> ../gone"},
			{NET "loop", "-> loop"}, {NET "eth1/master", "-> ../nobody"}}},
};

static void devices_are_found_in_a_tree(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char found[4096];

		find(cases[i].tree, found);
		if (strcmp(found, cases[i].says) != 0)
			fail_msg("%zu: '%s', not '%s'", i, found, cases[i].says);
	}
}

static void the_number_of_networks_is_limited(void **state)
{
	char top[] = "/tmp/divvy-network-XXXXXX";
	struct network_set set;

	assert_non_null(mkdtemp(top));
	for (unsigned i = 0; i < NETWORKS_MAX + 3; i++) {
		static const struct entry files[] = {
			{"device/x", ""}, {"type", "1"}, {"speed", "10"}, {"operstate", "up"}};

		for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
			char path[64];

			snprintf(path, sizeof(path), NET "eth%u/%s", i, files[k].path);
			make(top, &(struct entry){path, files[k].text});
		}
	}
	network_find(top, &set);
	assert_int_equal(set.n, NETWORKS_MAX);
	assert_int_equal(nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	network_find("/nowhere", &set);
	assert_int_equal(set.n, 0);
}

UNIT_MAIN(UNIT(devices_are_found_in_a_tree), UNIT(the_number_of_networks_is_limited))
