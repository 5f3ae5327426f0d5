/* SPDX-License-Identifier: Apache-2.0 */
#include "fake-verbs.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"

#define QUEUE 64u
#define PAIRS 4u
#define MESSAGE_MAX (1u << 20)

struct fake_verbs fake;
const struct fake_far *fake_far;

struct fake_domain {
	struct ibv_pd pd;
	struct ibv_mr mr;
};

struct fake_channel {
	struct ibv_comp_channel channel;
	struct ibv_cq *cq;
};

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc v[QUEUE];
	unsigned first, n;
	bool is_armed;
};

struct fake_work {
	uint64_t id;
	struct ibv_sge sge;
};

struct fake_works {
	struct fake_work v[QUEUE];
	unsigned first, n, most;
};

struct fake_pair {
	struct ibv_qp qp;
	struct fake_works in, out;
	uint32_t dest;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_changed = PTHREAD_COND_INITIALIZER;
static struct fake_pair *pairs[PAIRS];
static pthread_t network;
static bool is_over;
static uint8_t before[MESSAGE_MAX]; /* the last message; of the network's thread */
static uint32_t before_bytes;

/* ---- objects ---- */

static void *make(size_t n)
{
	void *p = NULL;

	pthread_mutex_lock(&lock);
	if (++fake.made != fake.fails)
		p = calloc(1, n);
	fake.live += p != NULL;
	pthread_mutex_unlock(&lock);
	errno = ENOMEM;
	return p;
}

static int unmake(void *p)
{
	pthread_mutex_lock(&lock);
	fake.live--;
	pthread_mutex_unlock(&lock);
	free(p);
	return 0;
}

static struct ibv_device device = {
	.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "fake0"};

static struct ibv_device *list[2];

struct ibv_device **ibv_get_device_list(int *n)
{
	if (fake_far)
		fake_far->open();
	*n = fake.is_absent ? 0 : 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **of)
{
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

/* Of two ports the second is the one that is up. */
int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *ret)
{
	*ret = (struct ibv_device_attr){.phys_port_cnt = 2};
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *ret)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)ret;

	attr->state = port == 2 && !fake.is_down ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr->active_mtu = IBV_MTU_1024;
	attr->lid = 7;
	attr->link_layer = fake.is_ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	attr->gid_tbl_len = 3;
	return 0;
}

/* Of Ethernet: one of each version, and an entry between that nobody has filled. */
int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
	struct ibv_gid_entry *ret, uint32_t flags, size_t size)
{
	if (index == 1)
		return ENODATA;
	*ret = (struct ibv_gid_entry){.gid_index = index,
		.port_num = port,
		.gid_type = index == 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1};
	ret->gid.raw[15] = (uint8_t)(index + 1);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct fake_domain *d = make(sizeof(*d));

	return d ? &d->pd : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return unmake(CONTAINER_OF(pd, struct fake_domain, pd));
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *p, size_t n, int access)
{
	struct fake_domain *d = CONTAINER_OF(pd, struct fake_domain, pd);

	if (fake.refuses) {
		errno = fake.refuses;
		return NULL;
	}
	/* Nobody at the other side may read or write it. */
	fake.misused += access != IBV_ACCESS_LOCAL_WRITE;
	d->mr = (struct ibv_mr){.pd = pd, .addr = p, .length = n, .lkey = 42};
	pthread_mutex_lock(&lock);
	fake.registered += n;
	pthread_mutex_unlock(&lock);
	return &d->mr;
}

/* Where the compiler cannot tell that it is not called. */
struct ibv_mr *ibv_reg_mr_iova2(
	struct ibv_pd *pd, void *p, size_t n, uint64_t iova, unsigned access)
{
	return ibv_reg_mr(pd, p, n, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	pthread_mutex_lock(&lock);
	fake.registered -= mr->length;
	pthread_mutex_unlock(&lock);
	mr->lkey = 0;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct fake_channel *f = make(sizeof(*f));

	if (!f)
		return NULL;
	f->channel.fd = eventfd(0, EFD_CLOEXEC);
	return &f->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	return unmake(CONTAINER_OF(channel, struct fake_channel, channel));
}

struct ibv_cq *ibv_create_cq(
	struct ibv_context *c, int n, void *context, struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *q = make(sizeof(*q));

	if (!q)
		return NULL;
	q->cq = (struct ibv_cq){.context = c, .channel = channel, .cq_context = context, .cqe = n};
	CONTAINER_OF(channel, struct fake_channel, channel)->cq = &q->cq;
	return &q->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	/* An adapter waits for them. */
	fake.misused += cq->comp_events_completed != 0;
	return unmake(CONTAINER_OF(cq, struct fake_cq, cq));
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq, void **ret_context)
{
	uint64_t n;

	if (read(channel->fd, &n, sizeof(n)) != sizeof(n))
		return -1;
	*ret_cq = CONTAINER_OF(channel, struct fake_channel, channel)->cq;
	*ret_context = (*ret_cq)->cq_context;
	(*ret_cq)->comp_events_completed++;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	cq->comp_events_completed -= n;
}

/* ---- queues ---- */

static void complete(struct ibv_cq *cq, const struct ibv_wc *done)
{
	struct fake_cq *q = CONTAINER_OF(cq, struct fake_cq, cq);
	const uint64_t one = 1;

	if (q->n == (unsigned)cq->cqe || q->n == QUEUE) {
		fake.misused++;
		return;
	}
	q->v[(q->first + q->n++) % QUEUE] = *done;
	if (q->is_armed && write(cq->channel->fd, &one, sizeof(one)) != sizeof(one))
		fake.misused++;
	q->is_armed = false;
}

static int poll_queue(struct ibv_cq *cq, int n, struct ibv_wc *ret)
{
	struct fake_cq *q = CONTAINER_OF(cq, struct fake_cq, cq);
	int i = 0;

	pthread_mutex_lock(&lock);
	for (; i < n && q->n; i++, q->n--)
		ret[i] = q->v[q->first++ % QUEUE];
	q->first %= QUEUE;
	pthread_mutex_unlock(&lock);
	return i;
}

static int arm(struct ibv_cq *cq, int solicited_only)
{
	pthread_mutex_lock(&lock);
	CONTAINER_OF(cq, struct fake_cq, cq)->is_armed = true;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void put(struct fake_works *w, uint64_t id, const struct ibv_sge *sge)
{
	w->v[(w->first + w->n++) % QUEUE] = (struct fake_work){id, *sge};
}

static struct fake_work take(struct fake_works *w)
{
	const struct fake_work one = w->v[w->first];

	w->first = (w->first + 1) % QUEUE;
	w->n--;
	return one;
}

static void say(
	struct ibv_cq *cq, const struct fake_work *work, enum ibv_wc_status status, uint32_t bytes)
{
	complete(cq, &(struct ibv_wc){.wr_id = work->id, .status = status, .byte_len = bytes});
}

static void break_pair(struct fake_pair *p)
{
	struct fake_work one;

	p->qp.state = IBV_QPS_ERR;
	while (p->out.n) {
		one = take(&p->out);
		say(p->qp.send_cq, &one, IBV_WC_WR_FLUSH_ERR, 0);
	}
	while (p->in.n) {
		one = take(&p->in);
		say(p->qp.recv_cq, &one, IBV_WC_WR_FLUSH_ERR, 0);
	}
}

static bool is_registered(const struct fake_pair *p, const struct ibv_sge *sge)
{
	const struct ibv_mr *mr = &CONTAINER_OF(p->qp.pd, struct fake_domain, pd)->mr;
	const uintptr_t from = (uintptr_t)mr->addr;

	return mr->lkey && sge->lkey == mr->lkey && sge->addr >= from &&
		sge->addr + sge->length <= from + mr->length;
}

static int post(
	struct fake_pair *p, struct fake_works *to, uint64_t id, const struct ibv_sge *sge, bool ok)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	/* States come in order, the broken one last. */
	if (p->qp.state < (to == &p->out ? IBV_QPS_RTS : IBV_QPS_INIT) || !ok ||
		!is_registered(p, sge) || to->n == to->most) {
		fake.misused++;
		r = EINVAL;
	} else {
		put(to, id, sge);
		if (p->qp.state == IBV_QPS_ERR)
			break_pair(p);
	}
	pthread_cond_broadcast(&is_changed);
	pthread_mutex_unlock(&lock);
	return r;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	struct fake_pair *p = CONTAINER_OF(qp, struct fake_pair, qp);

	return post(p, &p->out, work->wr_id, work->sg_list,
		work->num_sge == 1 && work->opcode == IBV_WR_SEND && !work->next);
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	struct fake_pair *p = CONTAINER_OF(qp, struct fake_pair, qp);

	return post(p, &p->in, work->wr_id, work->sg_list, work->num_sge == 1 && !work->next);
}

/* ---- the adapter ---- */

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct ibv_context *c = make(sizeof(*c));

	if (c) {
		c->device = d;
		c->ops.poll_cq = poll_queue;
		c->ops.req_notify_cq = arm;
		c->ops.post_send = post_send;
		c->ops.post_recv = post_receive;
	}
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	return unmake(c);
}

static uint32_t first_number(void)
{
	return fake_far ? fake_far->first : 1;
}

static struct fake_pair *find_pair(uint32_t number)
{
	const uint32_t at = number - first_number();

	return at < PAIRS ? pairs[at] : NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
	struct fake_pair *p = make(sizeof(*p));

	if (!p)
		return NULL;
	p->qp = (struct ibv_qp){.context = wanted->send_cq->context,
		.pd = pd,
		.send_cq = wanted->send_cq,
		.recv_cq = wanted->recv_cq,
		.state = IBV_QPS_RESET,
		.qp_type = wanted->qp_type};
	p->in.most = wanted->cap.max_recv_wr;
	p->out.most = wanted->cap.max_send_wr;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < PAIRS && !p->qp.qp_num; i++)
		if (!pairs[i]) {
			pairs[i] = p;
			p->qp.qp_num = first_number() + i;
		}
	pthread_mutex_unlock(&lock);
	if (fake_far)
		fake_far->made(p->qp.qp_num);
	return &p->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	pthread_mutex_lock(&lock);
	pairs[qp->qp_num - first_number()] = NULL;
	pthread_mutex_unlock(&lock);
	return unmake(CONTAINER_OF(qp, struct fake_pair, qp));
}

/* What an adapter wants to be told for a state, and from which it is entered. */
static bool is_step(const struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	static const struct {
		enum ibv_qp_state from, to;
		int mask;
	} steps[] = {
		{IBV_QPS_RESET, IBV_QPS_INIT,
			IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		{IBV_QPS_INIT, IBV_QPS_RTR,
			IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
		{IBV_QPS_RTR, IBV_QPS_RTS,
			IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC},
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i].to == to)
			return steps[i].from == qp->state && mask == (steps[i].mask | IBV_QP_STATE);
	return to == IBV_QPS_ERR && mask == IBV_QP_STATE;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_pair *p = CONTAINER_OF(qp, struct fake_pair, qp);
	int r = 0;

	pthread_mutex_lock(&lock);
	if (!is_step(qp, attr->qp_state, mask)) {
		fake.misused++;
		r = EINVAL;
	} else if (attr->qp_state == IBV_QPS_ERR) {
		break_pair(p);
	} else {
		qp->state = attr->qp_state;
		if (mask & IBV_QP_DEST_QPN)
			p->dest = attr->dest_qp_num;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* ---- the network ---- */

/* As it arrives there; with the lock. */
static int arrive(uint32_t number, uint32_t from, const void *p, uint32_t n)
{
	struct fake_pair *to = find_pair(number);
	struct fake_work there;

	if (!to || (to->qp.state != IBV_QPS_RTR && to->qp.state != IBV_QPS_RTS) ||
		to->dest != from || fake.is_deaf)
		return FAKE_NOBODY;
	if (!to->in.n) {
		fake.not_ready++;
		return FAKE_NOT_READY;
	}
	there = take(&to->in);
	if (n > there.sge.length) {
		fake.misused++;
		return FAKE_NOBODY;
	}
	memcpy((void *)(uintptr_t)there.sge.addr, p, n);
	say(to->qp.recv_cq, &there, IBV_WC_SUCCESS, n);
	return FAKE_TAKEN;
}

int fake_arrive(uint32_t to, uint32_t from, const void *p, uint32_t n)
{
	int r;

	pthread_mutex_lock(&lock);
	r = arrive(to, from, p, n);
	pthread_mutex_unlock(&lock);
	return r;
}

/* What is to arrive of it, in `before`. */
static void carry(const struct fake_work *work, enum fake_fate fate)
{
	if (fate != FAKE_REPEATED) {
		before_bytes = MIN(work->sge.length, MESSAGE_MAX);
		memcpy(before, (const void *)(uintptr_t)work->sge.addr, before_bytes);
	}
	if (fate == FAKE_CHANGED)
		before[before_bytes / 2] ^= 1;
}

static void deliver(struct fake_pair *from)
{
	const struct fake_work work = take(&from->out);
	const enum fake_fate fate = ++fake.messages == fake.at ? fake.fate : FAKE_ARRIVES;
	int r = FAKE_TAKEN;

	if (fate != FAKE_LOST) {
		carry(&work, fate);
		if (fake_far) {
			/* That takes as long as the other process does. */
			pthread_mutex_unlock(&lock);
			r = fake_far->send(from->dest, from->qp.qp_num, before, before_bytes);
			pthread_mutex_lock(&lock);
		} else {
			r = arrive(from->dest, from->qp.qp_num, before, before_bytes);
		}
	}
	say(from->qp.send_cq, &work, r == FAKE_TAKEN ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, 0);
	if (r != FAKE_TAKEN)
		break_pair(from);
}

static struct fake_pair *find_work(unsigned *at)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		struct fake_pair *p = pairs[++*at % PAIRS];

		if (p && p->out.n)
			return p;
	}
	return NULL;
}

static void *network_main(void *argument)
{
	unsigned at = 0;

	pthread_mutex_lock(&lock);
	while (!is_over) {
		struct fake_pair *from = find_work(&at);

		if (!from) {
			pthread_cond_wait(&is_changed, &lock);
			continue;
		}
		deliver(from);
		if (fake.slow_us) {
			pthread_mutex_unlock(&lock);
			usleep((useconds_t)fake.slow_us);
			pthread_mutex_lock(&lock);
		}
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

void fake_begin(const struct fake_verbs *how)
{
	fake = *how;
	is_over = false;
	device.transport_type = fake.is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	list[0] = fake.is_absent ? NULL : &device;
	if (pthread_create(&network, NULL, network_main, NULL))
		abort();
}

void fake_end(void)
{
	pthread_mutex_lock(&lock);
	is_over = true;
	pthread_cond_broadcast(&is_changed);
	pthread_mutex_unlock(&lock);
	pthread_join(network, NULL);
}

const uint8_t *fake_last(uint32_t *ret_bytes)
{
	*ret_bytes = before_bytes;
	return before;
}
