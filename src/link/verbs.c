/* SPDX-License-Identifier: Apache-2.0 */
#include "link/verbs.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fd.h"

#define SLOTS (VERBS_SENDS + VERBS_RECEIVES)
#define MEMORY_BYTES ((size_t)SLOTS * VERBS_SLOT_BYTES)
#define BITS_24 ((1u << 24) - 1)
/* Going to sleep and being woken takes several microseconds, an answer at best two. */
#define SPIN_NS (10 * NSEC_PER_USEC)
/* 4.096 us << 14 = 67 ms, 8 times: then the other side is gone. */
#define ACK_TIMEOUT 14
#define ACK_TRIES 7
#define HOPS 64

struct verbs {
	struct ibv_context *device;
	struct ibv_pd *domain;
	struct ibv_mr *region;
	struct ibv_comp_channel *channel[VERBS_WAYS];
	struct ibv_cq *queue[VERBS_WAYS];
	struct ibv_qp *pair;
	uint8_t *memory;
	uint8_t port, gid_index;
	struct verbs_address own;
};

/* ---- the adapter ---- */

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* Version 2 is routed; an address of an interface rather than one that every link has. */
static int rank_of(const struct ibv_gid_entry *entry)
{
	if (entry->gid_type == IBV_GID_TYPE_ROCE_V2)
		return is_link_local(&entry->gid) ? 2 : 3;
	return entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? 1 : 0;
}

/* Of a port of Ethernet: the address to be reached by. */
static int choose_gid(struct verbs *v, int n)
{
	int best = 0;

	for (int i = 0; i < n && i <= UINT8_MAX; i++) {
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(v->device, v->port, (uint32_t)i, &entry, 0) != 0 ||
			rank_of(&entry) <= best)
			continue;
		best = rank_of(&entry);
		v->gid_index = (uint8_t)i;
		v->own.link = best == 1 ? VERBS_ROCE_1 : VERBS_ROCE_2;
		memcpy(v->own.gid, entry.gid.raw, sizeof(v->own.gid));
	}
	return best ? 0 : -ENODEV;
}

static int choose_port(struct verbs *v)
{
	struct ibv_device_attr device;

	if (ibv_query_device(v->device, &device) != 0)
		return -ENODEV;
	for (v->port = 1; v->port <= device.phys_port_cnt; v->port++) {
		struct ibv_port_attr port;

		if (ibv_query_port(v->device, v->port, &port) != 0 || port.state != IBV_PORT_ACTIVE)
			continue;
		v->own.version = VERBS_VERSION;
		v->own.mtu = (uint8_t)port.active_mtu;
		v->own.lid = htole16(port.lid);
		v->own.link = VERBS_INFINIBAND;
		if (port.link_layer != IBV_LINK_LAYER_ETHERNET ||
			choose_gid(v, port.gid_tbl_len) == 0)
			return 0;
	}
	return -ENODEV;
}

/* iWARP's pairs are connected by a protocol of their own. */
static bool is_wanted(struct ibv_device *device, const char *name)
{
	return device->transport_type == IBV_TRANSPORT_IB && device->node_type == IBV_NODE_CA &&
		(!name || strcmp(ibv_get_device_name(device), name) == 0);
}

static int find_device(struct verbs *v, const char *name, struct error *err)
{
	int n = 0, r = -ENODEV;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; list && i < n && r < 0; i++) {
		if (!is_wanted(list[i], name))
			continue;
		v->device = ibv_open_device(list[i]);
		if (v->device)
			r = choose_port(v);
		if (r < 0 && v->device) {
			ibv_close_device(v->device);
			v->device = NULL;
		}
	}
	if (list)
		ibv_free_device_list(list);
	if (r == 0)
		return 0;
	return name ? fail(err, ENODEV, "no RDMA adapter %.60s that may be used has an active port",
			      name)
		    : fail(err, ENODEV, "no RDMA adapter that may be used has an active port");
}

/* ---- this side's end ---- */

static int register_slots(struct verbs *v, struct error *err)
{
	struct rlimit locked = {0};

	v->domain = ibv_alloc_pd(v->device);
	if (!v->domain)
		return fail_errno(err, errno, "a protection domain of the RDMA adapter");
	v->memory = mmap(
		NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (v->memory == MAP_FAILED) {
		v->memory = NULL;
		return fail(err, ENOMEM, "out of memory");
	}
	/* What the adapter writes to stays where it is after a fork. */
	madvise(v->memory, MEMORY_BYTES, MADV_DONTFORK);
	v->region = ibv_reg_mr(v->domain, v->memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (v->region)
		return 0;
	getrlimit(RLIMIT_MEMLOCK, &locked);
	return fail_errno(err, errno,
		"register %zu KiB with the RDMA adapter, where %llu KiB may be locked (ulimit -l)",
		MEMORY_BYTES >> 10, (unsigned long long)locked.rlim_cur >> 10);
}

static int make_queue(struct verbs *v, enum verbs_way way, int n, struct error *err)
{
	v->channel[way] = ibv_create_comp_channel(v->device);
	if (!v->channel[way] || fd_set_nonblock(v->channel[way]->fd, true) < 0)
		return fail_errno(err, errno, "a completion channel of the RDMA adapter");
	fd_set_cloexec(v->channel[way]->fd, true);
	v->queue[way] = ibv_create_cq(v->device, n, NULL, v->channel[way], 0);
	return v->queue[way] ? 0 : fail_errno(err, errno, "a completion queue of the adapter");
}

static int make_pair(struct verbs *v, struct error *err)
{
	struct ibv_qp_init_attr wanted = {
		.send_cq = v->queue[VERBS_OUT],
		.recv_cq = v->queue[VERBS_IN],
		.cap = {.max_send_wr = VERBS_SENDS,
			.max_recv_wr = VERBS_RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	/* Nobody is allowed anything but to send. */
	struct ibv_qp_attr begin = {
		.qp_state = IBV_QPS_INIT, .port_num = v->port, .qp_access_flags = 0};
	uint32_t first;
	int r;

	v->pair = ibv_create_qp(v->domain, &wanted);
	if (!v->pair)
		return fail_errno(err, errno, "a queue pair of the RDMA adapter");
	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		return fail(err, EIO, "no random number");
	v->own.number = htole32(v->pair->qp_num);
	v->own.first = htole32(first & BITS_24);
	r = ibv_modify_qp(v->pair, &begin,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (r)
		return fail_errno(err, r, "a queue pair of the RDMA adapter does not begin");
	for (unsigned i = 0; i < VERBS_RECEIVES; i++)
		if (verbs_post_receive(v, i) < 0)
			return fail(err, EIO, "the RDMA adapter takes no receive");
	return 0;
}

int verbs_open(const char *name, struct verbs **ret_verbs, struct error *err)
{
	_cleanup_verbs_ struct verbs *v = calloc(1, sizeof(*v));
	int r;

	if (!v)
		return fail(err, ENOMEM, "out of memory");
	r = find_device(v, name, err);
	r = r < 0 ? r : register_slots(v, err);
	r = r < 0 ? r : make_queue(v, VERBS_OUT, VERBS_SENDS, err);
	r = r < 0 ? r : make_queue(v, VERBS_IN, VERBS_RECEIVES, err);
	r = r < 0 ? r : make_pair(v, err);
	if (r == 0)
		*ret_verbs = TAKE_PTR(v);
	return r;
}

void verbs_close(struct verbs *v)
{
	if (!v)
		return;
	if (v->pair)
		ibv_destroy_qp(v->pair);
	for (unsigned i = 0; i < VERBS_WAYS; i++) {
		if (v->queue[i])
			ibv_destroy_cq(v->queue[i]);
		if (v->channel[i])
			ibv_destroy_comp_channel(v->channel[i]);
	}
	if (v->region)
		ibv_dereg_mr(v->region);
	if (v->memory)
		munmap(v->memory, MEMORY_BYTES);
	if (v->domain)
		ibv_dealloc_pd(v->domain);
	if (v->device)
		ibv_close_device(v->device);
	free(v);
}

const struct verbs_address *verbs_address(const struct verbs *v)
{
	return &v->own;
}

/* ---- the other one ---- */

static const char *link_name(unsigned link)
{
	switch (link) {
	case VERBS_INFINIBAND: return "InfiniBand";
	case VERBS_ROCE_1: return "RoCE v1";
	case VERBS_ROCE_2: return "RoCE v2";
	default: return "an unknown network";
	}
}

static int check(const struct verbs *v, const struct verbs_address *there, struct error *err)
{
	static const uint8_t nowhere[sizeof(there->gid)];
	const uint32_t number = le32toh(there->number);

	if (there->version != VERBS_VERSION || there->reserved || there->reserved2)
		return fail(err, EINVAL, "address of version %u, expected %u", there->version,
			VERBS_VERSION);
	if (there->link != v->own.link)
		return fail(err, EINVAL, "over %s there, over %s here", link_name(there->link),
			link_name(v->own.link));
	if (there->mtu < IBV_MTU_256 || there->mtu > IBV_MTU_4096)
		return fail(err, EINVAL, "mtu %u, expected %u to %u", there->mtu, IBV_MTU_256,
			IBV_MTU_4096);
	if (number == 0 || number > BITS_24)
		return fail(err, EINVAL, "queue pair %u, expected 1 to %u", number, BITS_24);
	if (le32toh(there->first) > BITS_24)
		return fail(err, EINVAL, "sequence number %u, expected 0 to %u",
			le32toh(there->first), BITS_24);
	if (there->link == VERBS_INFINIBAND && !there->lid)
		return fail(err, EINVAL, "port 0 of InfiniBand, expected 1 or more");
	if (there->link != VERBS_INFINIBAND && !memcmp(there->gid, nowhere, sizeof(nowhere)))
		return fail(err, EINVAL, "no address of its port");
	return 0;
}

int verbs_connect(struct verbs *v, const struct verbs_address *there, struct error *err)
{
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)MIN(there->mtu, v->own.mtu),
		.dest_qp_num = le32toh(there->number),
		.rq_psn = le32toh(there->first),
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.port_num = v->port, .dlid = le16toh(there->lid)},
	};
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = ACK_TRIES,
		.rnr_retry = 0, /* who sends knows that there is room */
		.sq_psn = le32toh(v->own.first),
		.max_rd_atomic = 1,
	};
	int r = check(v, there, err);

	if (r < 0)
		return r;
	if (there->link != VERBS_INFINIBAND) {
		receive.ah_attr.is_global = 1;
		receive.ah_attr.grh.sgid_index = v->gid_index;
		receive.ah_attr.grh.hop_limit = HOPS;
		memcpy(receive.ah_attr.grh.dgid.raw, there->gid, sizeof(there->gid));
	}
	r = ibv_modify_qp(v->pair, &receive,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (r == 0)
		r = ibv_modify_qp(v->pair, &send,
			IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return r ? fail_errno(err, r, "the RDMA adapter knows no way to the other one") : 0;
}

void verbs_break(struct verbs *v)
{
	struct ibv_qp_attr broken = {.qp_state = IBV_QPS_ERR};

	ibv_modify_qp(v->pair, &broken, IBV_QP_STATE);
}

/* ---- posting, and what is done ---- */

uint8_t *verbs_slot(struct verbs *v, enum verbs_way way, unsigned slot)
{
	return v->memory + (size_t)(way == VERBS_IN ? VERBS_SENDS + slot : slot) * VERBS_SLOT_BYTES;
}

static struct ibv_sge bytes_of(struct verbs *v, enum verbs_way way, unsigned slot, uint32_t n)
{
	return (struct ibv_sge){(uintptr_t)verbs_slot(v, way, slot), n, v->region->lkey};
}

int verbs_post_send(struct verbs *v, unsigned slot, uint32_t n)
{
	struct ibv_sge bytes = bytes_of(v, VERBS_OUT, slot, n);
	struct ibv_send_wr *bad,
		work = {.wr_id = slot, .sg_list = &bytes, .num_sge = 1, .opcode = IBV_WR_SEND};

	return ibv_post_send(v->pair, &work, &bad) ? -EPIPE : 0;
}

int verbs_post_receive(struct verbs *v, unsigned slot)
{
	struct ibv_sge bytes = bytes_of(v, VERBS_IN, slot, VERBS_SLOT_BYTES);
	struct ibv_recv_wr *bad, work = {.wr_id = slot, .sg_list = &bytes, .num_sge = 1};

	return ibv_post_recv(v->pair, &work, &bad) ? -EPIPE : 0;
}

static int take_done(struct verbs *v, enum verbs_way way, struct verbs_done *ret_done)
{
	struct ibv_wc done;
	const int n = ibv_poll_cq(v->queue[way], 1, &done);

	if (n == 0)
		return 0;
	if (n < 0 || done.status != IBV_WC_SUCCESS)
		return -EPIPE;
	/* A send says no length. */
	*ret_done = (struct verbs_done){(unsigned)done.wr_id, way == VERBS_IN ? done.byte_len : 0};
	return 1;
}

/* Until the adapter says that something is there; or it said so of what has been taken. */
static void sleep_until(struct verbs *v, enum verbs_way way, uint64_t left_ns)
{
	struct ibv_comp_channel *channel = v->channel[way];
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *queue;
	void *context;

	if (poll(&p, 1, (int)((left_ns + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC)) > 0 &&
		ibv_get_cq_event(channel, &queue, &context) == 0)
		ibv_ack_cq_events(queue, 1);
}

int verbs_next(
	struct verbs *v, enum verbs_way way, unsigned timeout_ms, struct verbs_done *ret_done)
{
	const uint64_t since = clock_now_ns(), most = timeout_ms * NSEC_PER_MSEC;
	bool is_armed = false;

	for (;;) {
		const int r = take_done(v, way, ret_done);
		const uint64_t waited = clock_now_ns() - since;

		if (r != 0 || waited >= most)
			return r;
		if (waited < SPIN_NS)
			continue;
		/* What came just before that is not told: it is looked once more. */
		if (!is_armed) {
			if (ibv_req_notify_cq(v->queue[way], 0) != 0)
				return -EPIPE;
		} else {
			sleep_until(v, way, most - waited);
		}
		is_armed = !is_armed;
	}
}
