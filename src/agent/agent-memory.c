/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: see agent-memory.h.
 *
 * A job of the worker asks all devices which processes use how much memory. One job runs at a time.
 * Its answer serves only the questions that came before the job began. A dead process stays in its
 * tenant's counter (in the "grave") until an answer no longer lists its pid, or MEMORY_GRACE_NS
 * have passed.
 */
#include "agent/agent-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "agent/conf.h"
#include "agent/context-cost.h"
#include "agent/control.h"
#include "base/open-locks.h"
#include "agent/device.h"
#include "agent/register.h"
#include "agent/agent-share.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/ledger-counter.h"
#include "threads/thread-worker.h"

#define LISTED_MAX 4096u
#define ASK_AGAIN_NS (20 * NSEC_PER_MSEC)
#define LOOK_AT_LEFT_NS (250 * NSEC_PER_MSEC)
#define REFRESH_NS NSEC_PER_SEC
/*
 * While a device is lost, queries begin the use of the driver anew. That may take seconds without
 * persistence mode, so the pause until the next time is REOPEN_REST times as long. The pause also
 * doubles from REOPEN_NS to REOPEN_MAX_NS, because a device may stay lost for days. It does not
 * double after a failure, which leaves the daemon without its healthy devices, too.
 */
#define REOPEN_NS (1 * NSEC_PER_SEC)
#define REOPEN_MAX_NS (300 * NSEC_PER_SEC)
#define REOPEN_REST 20u
#define WAITS_MAX 65536u /* waiting requests on all devices */
#define WAITS_PER_PROCESS 256u
#define RECOUNT_TRIES 1000

struct question { /* a MEASURE message */
	TAILQ_ENTRY(question) link;
	struct process *process;
	uint32_t at, request;
	uint64_t asked; /* number of jobs that had begun when the message came */
};

struct wait { /* a MEM_RESERVE message */
	TAILQ_ENTRY(wait) link;
	struct process *process;
	uint32_t at, request;
	ledger_request id;
	uint64_t bytes;
	bool is_held; /* not in the ledger yet: see is_held_up() */
};

/* Memory of a process, alive or dead, whose tenant was removed. */
struct remains {
	TAILQ_ENTRY(remains) link;
	struct memory *memory;
	struct device *device;
	uint32_t tenant, process; /* the numbers by which the ledger knows the memory */
	pid_t pid;
	int pidfd; /* -1: the process is dead */
	struct loop_io io;
	uint64_t died_after, until_ns; /* set once it is dead */
};

struct query {
	struct worker_job job;
	struct agent *agent;
	struct nvml *nvml;
	uint32_t n_devices, n_listed;
	/* `whole`: the device, or the parent of the MIG instance; NULL: lost at the last opening */
	nvml_handle handles[ARBITER_DEVICES], whole[ARBITER_DEVICES];
	char (*uuids)[96], (*parents)[96];
	uint64_t reopen_ns; /* when a query may open the driver again */
	uint64_t pause_ns;  /* the last pause between reopenings, without REOPEN_REST */
	/* The device was lost or not found at a query, and no later query had an answer. */
	bool is_away[ARBITER_DEVICES];
	uint64_t used_bytes[ARBITER_DEVICES];
	struct device_answer answers[ARBITER_DEVICES];
	uint64_t n_xids[ARBITER_DEVICES]; /* at the query's begin; the loop's */
	bool is_listed[ARBITER_DEVICES];  /* the list of processes is complete */
	struct memory_unmanaged *listed;
	struct nvml_process *scratch;
	bool asks_descriptors;
	struct open_locks open; /* empty where the kernel does not list the locks */
};

struct memory {
	struct agent *agent;
	TAILQ_HEAD(, question) questions;
	TAILQ_HEAD(, wait) waits;
	TAILQ_HEAD(grave_list, process) graves;
	TAILQ_HEAD(, remains) remains;
	struct loop_timer timer;
	struct query query; /* one at a time */
	bool is_asking, must_ask_again;
	uint64_t begun, answered_ns;
	ledger_request next_wait;
	uint32_t n_waits;
	uint32_t daemon_seq;
	bool needs_recount; /* set in at least one tenant-device */

	struct memory_unmanaged *listed; /* processes in the devices' last answer */
	uint32_t n_listed;
	bool is_known[ARBITER_DEVICES];
	uint64_t generation;
	/* Descriptors that were open at query number open_question. */
	struct open_locks open;
	uint64_t open_question;
};

static void memory_read_processes(struct memory *m);
static void look_at_left(struct memory *m);

/* ---- quotas ---- */

void memory_fill_down(struct process *p, uint32_t at)
{
	struct tenant_device *td = &p->tenant->devices[at];
	struct page_down *down = p->devices[at].down;

	down->magic = PAGE_MAGIC;
	down->abi = PAGE_ABI;
	down->device = (uint16_t)td->device->index;
	down->size = sizeof(*down);
	down->process = p->index;
	memcpy(down->uuid, td->device->uuid, sizeof(down->uuid));
	down->daemon_epoch = p->agent->epoch;
	down->device_bytes = td->device->info.memory_bytes;
	atomic_store_explicit(&down->quota_bytes, td->quota_bytes, memory_order_relaxed);
	atomic_store_explicit(
		&down->context_bytes, context_cost_expected(td), memory_order_relaxed);
}

void memory_set_quota(struct tenant_device *td)
{
	struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant)
		if (p->devices[td->at].down)
			atomic_store_explicit(&p->devices[td->at].down->quota_bytes,
				td->quota_bytes, memory_order_relaxed);
}

static uint64_t denied_to(const struct process *p, uint32_t at)
{
	const struct page_up *up = p->devices[at].up;

	return up ? atomic_load_explicit(&up->denied, memory_order_relaxed) : 0;
}

uint64_t memory_denied(const struct tenant_device *td)
{
	uint64_t n = td->denied;
	const struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant)
		if (!p->is_dead)
			n += denied_to(p, td->at);
	return n;
}

uint64_t memory_used(const struct tenant_device *td)
{
	uint64_t pages = td->page ? ledger_counter_pages(td->page) : 0;

	return MIN(pages, LEDGER_PAGES_MAX) * PAGE_MEM_UNIT;
}

/* ---- waiting for room ---- */

static void answer_memory(struct process *p, uint32_t at, enum msg_type type, uint32_t request,
	int status, uint64_t bytes)
{
	struct msg_memory reply = {.device = p->tenant->devices[at].device->index, .bytes = bytes};

	if (!p->conn)
		return;
	msg_head_init(&reply.head, type, sizeof(reply), request);
	reply.head.status = status;
	client_send(p->conn, &reply, sizeof(reply));
}

static void forget_wait(struct memory *m, struct wait *w)
{
	TAILQ_REMOVE(&m->waits, w, link);
	m->n_waits--;
	free(w);
}

void memory_settled(struct agent *agent, struct device *device)
{
	struct memory *m = agent->memory;
	struct ledger_verdict verdicts[32];
	size_t n;

	do {
		n = ledger_verdicts(device->ledger, verdicts, ARRAY_SIZE(verdicts));
		for (size_t i = 0; i < n; i++) {
			struct wait *w;

			TAILQ_FOREACH(w, &m->waits, link)
				if (w->id == verdicts[i].request)
					break;
			if (!w)
				continue;
			answer_memory(w->process, w->at, MSG_MEM_REPLY, w->request,
				-verdicts[i].status, 0);
			forget_wait(m, w);
		}
	} while (n == ARRAY_SIZE(verdicts));
}

static uint32_t waits_of(const struct memory *m, const struct process *p)
{
	const struct wait *w;
	uint32_t n = 0;

	TAILQ_FOREACH(w, &m->waits, link)
		n += w->process == p;
	return n;
}

/*
 * Whether requests for the device's memory must wait. After a restart the ledger lacks the memory
 * of an earlier process until the process registers again, and could give that memory to another
 * tenant.
 */
static bool is_held_up(struct agent *agent, const struct device *device)
{
	struct process *p;

	LIST_FOREACH(p, &agent->processes, link) {
		if (p->is_dead || !p->is_awaited || !p->tenant->hold_ns ||
			p->tenant->spec.memory_policy != SPEC_MEMORY_WAIT)
			continue;
		for (uint32_t i = 0; i < p->tenant->n; i++)
			if (p->tenant->devices[i].device == device)
				return true;
	}
	return false;
}

/* Returns -EINPROGRESS if the request waits in the ledger, else 0 or -errno for the answer. */
static int enter_wait(struct wait *w)
{
	struct tenant_device *td = &w->process->tenant->devices[w->at];

	return ledger_reserve(td->device->ledger, td->tenant->id, w->process->index, w->bytes,
		w->id, clock_now_ns());
}

void memory_look_at_held(struct agent *agent)
{
	struct memory *m = agent->memory;
	struct wait *w, *next;

	for (w = TAILQ_FIRST(&m->waits); w; w = next) {
		struct device *device = w->process->tenant->devices[w->at].device;
		int r;

		next = TAILQ_NEXT(w, link);
		if (!w->is_held || is_held_up(agent, device))
			continue;
		w->is_held = false;
		r = enter_wait(w);
		if (r == -EINPROGRESS)
			continue;
		answer_memory(w->process, w->at, MSG_MEM_REPLY, w->request, -r, w->bytes);
		forget_wait(m, w);
	}
	for (uint32_t i = 0; i < agent->devices->n; i++)
		memory_settled(agent, &agent->devices->devices[i]);
}

void memory_reserve(struct process *p, uint32_t at, uint32_t request, uint64_t bytes)
{
	struct tenant_device *td = &p->tenant->devices[at];
	struct memory *m = p->agent->memory;
	struct wait *w;
	int r;

	if (p->tenant->spec.memory_policy != SPEC_MEMORY_WAIT) {
		answer_memory(p, at, MSG_MEM_REPLY, request, 0, bytes);
		return;
	}
	w = m->n_waits < WAITS_MAX && waits_of(m, p) < WAITS_PER_PROCESS ? calloc(1, sizeof(*w))
									 : NULL;
	if (!w) {
		answer_memory(p, at, MSG_MEM_REPLY, request, ENOMEM, bytes);
		return;
	}
	*w = (struct wait){
		.process = p, .at = at, .request = request, .id = ++m->next_wait, .bytes = bytes};
	w->is_held = is_held_up(p->agent, td->device);
	r = w->is_held ? -EINPROGRESS : enter_wait(w);
	if (r == -EINPROGRESS) {
		TAILQ_INSERT_TAIL(&m->waits, w, link);
		m->n_waits++;
	} else {
		answer_memory(p, at, MSG_MEM_REPLY, request, -r, bytes);
		free(w);
	}
	/* The ledger may have refused another request to break a deadlock: answers that request. */
	memory_settled(p->agent, td->device);
}

void memory_add_charge(struct process *p, uint32_t at, uint64_t bytes)
{
	struct tenant_device *td = &p->tenant->devices[at];

	/*
	 * The process holds this memory already, so the result does not matter. If the ledger has
	 * no room for the memory, later requests wait.
	 */
	if (p->tenant->spec.memory_policy == SPEC_MEMORY_WAIT && bytes)
		(void)ledger_reserve(td->device->ledger, td->tenant->id, p->index, bytes,
			++p->agent->memory->next_wait, clock_now_ns());
}

/* The daemon itself has index 0. */
static uint32_t memory_process_index(const struct process *p)
{
	return p ? p->index : 0;
}

void memory_release(struct tenant_device *td, const struct process *p, uint64_t bytes)
{
	if (td->tenant->spec.memory_policy != SPEC_MEMORY_WAIT)
		return;
	ledger_release(td->device->ledger, td->tenant->id, memory_process_index(p), bytes);
	memory_settled(td->tenant->agent, td->device);
}

void memory_rebook(struct tenant_device *td, const struct process *from, const struct process *to,
	uint64_t bytes)
{
	if (td->tenant->spec.memory_policy == SPEC_MEMORY_WAIT)
		ledger_move(td->device->ledger, td->tenant->id, memory_process_index(from),
			memory_process_index(to), bytes);
}

void memory_process_back(struct process *p)
{
	/* The process's refusals from before the restart were counted already. */
	for (uint32_t i = 0; i < p->tenant->n; i++)
		p->tenant->devices[i].denied -= denied_to(p, i);
	for (uint32_t i = 0; i < p->tenant->n; i++) {
		uint64_t pages = MIN(
			ledger_slot_pages(&p->devices[i].up->memory), LEDGER_PAGES_MAX);

		memory_add_charge(p, i, pages * PAGE_MEM_UNIT);
	}
}

/* ---- memory that several processes hold ---- */

void memory_share(struct process *p, uint32_t at, const struct msg_share *share)
{
	const bool is_held = share->flags & MSG_SHARE_HELD, is_again = !share->head.request;
	struct tenant_device *td = &p->tenant->devices[at];
	struct memory *m = p->agent->memory;
	int r = share_add(td, p, share->id, share->bytes, is_held, &m->daemon_seq);

	/*
	 * is_held: the process has allocated the memory, and the ledger has it in the process's
	 * name already. is_again: the ledger is new since the daemon's restart.
	 */
	if (r > 0 && (!is_held || is_again))
		memory_add_charge(p, at, share->bytes);
	if (!is_again)
		answer_memory(
			p, at, MSG_MEM_REPLY, share->head.request, r < 0 ? -r : 0, share->bytes);
	else if (r > 0) /* after a restart, the counter already contains the memory */
		td->needs_recount = m->needs_recount = true;
}

void memory_unshare(struct process *p, uint32_t at, const struct msg_share *share)
{
	struct tenant_device *td = &p->tenant->devices[at];
	struct memory *m = p->agent->memory;

	share_remove(td, p, share->id, &m->daemon_seq);
	look_at_left(m);
	if (share->head.request)
		answer_memory(p, at, MSG_MEM_REPLY, share->head.request, 0, share->bytes);
}

/* ---- asking the devices ---- */

/* Begins to use the driver anew, in case a lost device is back. */
static void query_reopen(struct query *q)
{
	uint64_t took_ns, pause_ns = REOPEN_NS;
	const int r = nvml_reopen(q->nvml, &took_ns);

	if (r != -EIO)
		pause_ns = q->pause_ns = q->pause_ns ? MIN(2 * q->pause_ns, REOPEN_MAX_NS)
						     : REOPEN_NS;
	q->reopen_ns = clock_now_ns() + MIN(MAX(REOPEN_REST * took_ns, pause_ns), REOPEN_MAX_NS);
	if (r == -ENOTSUP)
		return;
	for (uint32_t i = 0; i < q->n_devices; i++) {
		q->handles[i] = nvml_find(q->nvml, q->uuids[i]);
		q->whole[i] = q->parents[i][0] ? nvml_find(q->nvml, q->parents[i]) : q->handles[i];
	}
}

static bool query_has_away(const struct query *q)
{
	for (uint32_t i = 0; i < q->n_devices; i++)
		if (q->is_away[i])
			return true;
	return false;
}

static void run_query(struct worker_job *job)
{
	struct query *q = (struct query *)job;

	q->n_listed = 0;
	if (!query_has_away(q))
		q->pause_ns = 0;
	else if (clock_now_ns() >= q->reopen_ns)
		query_reopen(q);
	for (uint32_t i = 0; i < q->n_devices; i++) {
		int n = q->handles[i]
			? nvml_processes(q->nvml, q->handles[i], q->scratch, LISTED_MAX)
			: q->answers[i].is_lost ? -ENODEV
						: -EIO;

		q->used_bytes[i] = NVML_UNKNOWN;
		if (q->handles[i])
			(void)nvml_used_bytes(q->nvml, q->handles[i], &q->used_bytes[i]);
		q->answers[i] = (struct device_answer){
			.is_answered = n >= 0 || q->used_bytes[i] != NVML_UNKNOWN,
			.is_lost = n == -ENODEV,
			.recovery = nvml_recovery(q->nvml, q->whole[i]),
		};
		q->is_listed[i] = n >= 0;
		q->is_away[i] = n == -ENODEV || !q->handles[i] ||
			(q->is_away[i] && !q->answers[i].is_answered);
		for (int k = 0; k < n && q->n_listed < LISTED_MAX; k++)
			q->listed[q->n_listed++] = (struct memory_unmanaged){
				.pid = (pid_t)q->scratch[k].pid,
				.device = i,
				.bytes = q->scratch[k].used_bytes,
				.is_graphics = q->scratch[k].is_graphics,
			};
	}
	if (q->asks_descriptors)
		(void)open_locks_read(&q->open);
}

static bool memory_is_process_listed(const struct memory *m, pid_t pid, uint32_t device)
{
	if (!m->is_known[device])
		return true;
	for (uint32_t i = 0; i < m->n_listed; i++)
		if (m->listed[i].pid == pid && m->listed[i].device == device)
			return true;
	return false;
}

uint64_t memory_device_says(struct agent *agent, const struct device *device, pid_t pid)
{
	const struct memory *m = agent->memory;
	uint64_t sum = 0;
	bool is_any = false;

	for (uint32_t i = 0; i < m->n_listed; i++) {
		const struct memory_unmanaged *l = &m->listed[i];

		if (l->pid != pid || l->device != device->index || l->bytes == NVML_UNKNOWN)
			continue;
		sum += l->bytes;
		is_any = true;
	}
	return is_any ? sum : NVML_UNKNOWN;
}

static void learn_context(const struct process *p, struct tenant_device *td, uint64_t bytes)
{
	char cgroup[CONF_CGROUP];

	context_cost_learn(td, conf_cgroup(p->pid, cgroup, NULL) < 0 ? "" : cgroup, bytes);
}

static void answer_questions(struct memory *m)
{
	struct question *q, *next;

	for (q = TAILQ_FIRST(&m->questions); q; q = next) {
		struct process *p = q->process;
		struct tenant_device *td = &p->tenant->devices[q->at];
		uint64_t bytes;

		next = TAILQ_NEXT(q, link);
		if (q->asked >= m->begun)
			continue;
		bytes = memory_device_says(m->agent, td->device, p->pid);
		if (bytes != NVML_UNKNOWN && p->devices[q->at].up &&
			ledger_slot_pages(&p->devices[q->at].up->memory) * PAGE_MEM_UNIT <=
				context_cost_expected(td))
			learn_context(p, td, bytes); /* the process holds only its context */
		answer_memory(p, q->at, MSG_MEASURED, q->request,
			bytes == NVML_UNKNOWN ? ENODATA : 0, bytes == NVML_UNKNOWN ? 0 : bytes);
		TAILQ_REMOVE(&m->questions, q, link);
		free(q);
	}
}

/* ---- dead processes ---- */

/* Bytes that the process holds, as its page shows; UINT64_MAX: the page keeps changing. */
static uint64_t held_bytes(const struct process *p, uint32_t at)
{
	const struct page_tenant *page = p->tenant->devices[at].page;
	const struct page_up *up = p->devices[at].up;
	int64_t pages = 0;

	if (!page || !up)
		return 0;
	if (ledger_slot_contribution(page, &up->memory, p->index,
		    atomic_load_explicit(&page->word, memory_order_acquire), &pages) < 0)
		return UINT64_MAX;
	return pages > 0 ? MIN((uint64_t)pages, LEDGER_PAGES_MAX) * PAGE_MEM_UNIT : 0;
}

static bool holds_nothing(const struct process *p, uint32_t at)
{
	return !held_bytes(p, at) && !share_bytes(&p->tenant->devices[at], p);
}

/* Sets the counter to the memory of living processes, and of dead ones that devices still list. */
static void recount_device(struct memory *m, struct tenant_device *td)
{
	struct tenant *t = td->tenant;
	struct ledger_slot *slots;
	struct process *p;
	size_t n = 0;
	int r = 0;

	if (!td->page)
		return;
	slots = calloc(PAGE_PROCESSES + 1, sizeof(*slots));
	if (!slots)
		return;
	if (share_slot(td))
		slots[n++] = (struct ledger_slot){share_slot(td), 0};
	LIST_FOREACH(p, &t->processes, of_tenant) {
		if (p->is_awaited)
			/* The process's memory is unknown until its HELLO: the counter stays. */
			goto out;
		if (n <= PAGE_PROCESSES)
			slots[n++] = (struct ledger_slot){&p->devices[td->at].up->memory, p->index};
	}
	TAILQ_FOREACH(p, &m->graves, grave)
		if (p->tenant == t && p->grave_devices & 1u << td->at && n <= PAGE_PROCESSES)
			slots[n++] = (struct ledger_slot){&p->devices[td->at].up->memory, p->index};
	ledger_counter_recount(td->page, slots, n, &m->daemon_seq, RECOUNT_TRIES, &r);
	if (r < 0)
		log_debug("tenant %u: its memory counter keeps changing; recounting later", t->id);
out:
	free(slots);
}

void memory_recount(struct tenant *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		recount_device(t->agent->memory, &t->devices[i]);
}

void memory_after_batch(struct agent *agent)
{
	struct memory *m = agent->memory;
	struct tenant *t;

	if (!m->needs_recount)
		return;
	m->needs_recount = false;
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n; i++)
			if (t->devices[i].needs_recount) {
				t->devices[i].needs_recount = false;
				recount_device(m, &t->devices[i]);
			}
}

/* Removes a dead process's memory from the ledger. */
static void give_room(struct memory *m, struct device *device, uint32_t tenant, uint32_t process)
{
	ledger_process_exited(device->ledger, tenant, process);
	memory_settled(m->agent, device);
}

/* Whether the devices were asked after the process's death, and no longer list the process. */
static bool is_let_go(
	const struct memory *m, pid_t pid, uint64_t died_after, const struct device *device)
{
	return died_after < m->begun && !memory_is_process_listed(m, pid, device->index);
}

/* The process has ended; the devices may list it a little longer. */
static void remains_die(struct remains *r)
{
	if (r->pidfd >= 0)
		loop_remove_io(&r->io);
	r->pidfd = fd_close(r->pidfd);
	r->died_after = r->memory->begun;
	r->until_ns = clock_now_ns() + MEMORY_GRACE_NS;
	memory_read_processes(r->memory);
}

static void on_remains(struct loop_io *io, uint32_t events)
{
	remains_die(io->data);
}

/*
 * A program whose tenant is removed runs on until its next driver call fails, or longer. The
 * program's memory is not free until the program ends.
 */
static void remains_watch(struct remains *r, const struct process *p)
{
	r->pidfd = p->pidfd < 0 ? -1 : fcntl(p->pidfd, F_DUPFD_CLOEXEC, 3);
	r->io.data = r;
	if (r->pidfd >= 0 &&
		loop_add_io(r->memory->agent->loop, &r->io, r->pidfd, EPOLLIN, on_remains) < 0)
		r->pidfd = fd_close(r->pidfd);
	if (r->pidfd < 0)
		remains_die(r);
}

static bool memory_is_process_alive(const struct process *p)
{
	struct pollfd fd = {.fd = p->pidfd, .events = POLLIN};

	return p->pidfd >= 0 && poll(&fd, 1, 0) == 0;
}

/*
 * Whether the ledger keeps the process's memory after the end of the tenant. An ended process has
 * freed everything; with memory policy wait the devices must confirm that.
 */
static bool leaves_something(const struct process *p, uint32_t at)
{
	return (memory_is_process_alive(p) || p->tenant->spec.memory_policy == SPEC_MEMORY_WAIT) &&
		!holds_nothing(p, at);
}

/* The tenant ends, so `struct remains` tracks what this process still holds of a device. */
static void leave_remains(struct memory *m, struct process *p, uint32_t at)
{
	const struct tenant *t = p->tenant;
	struct tenant_device *td = &p->tenant->devices[at];
	struct remains *r = leaves_something(p, at) ? calloc(1, sizeof(*r)) : NULL;

	p->grave_devices &= ~(1u << at);
	if (r) /* memory_used() bounds held_bytes() of a page that keeps changing */
		ledger_leave_held(td->device->ledger, t->id, p->index,
			MIN(held_bytes(p, at), memory_used(td)) + share_bytes(td, p));
	share_remove_process(td, p, m->begun, &m->daemon_seq);
	if (!r) {
		give_room(m, td->device, t->id, p->index);
		return;
	}
	*r = (struct remains){.memory = m,
		.device = td->device,
		.tenant = t->id,
		.process = p->index,
		.pid = p->pid};
	TAILQ_INSERT_TAIL(&m->remains, r, link);
	remains_watch(r, p);
}

static void forget_remains(struct memory *m, struct remains *r)
{
	if (r->pidfd >= 0)
		loop_remove_io(&r->io);
	fd_close(r->pidfd);
	TAILQ_REMOVE(&m->remains, r, link);
	free(r);
}

static void visit_remains(struct memory *m, bool has_answer, uint64_t now)
{
	struct remains *r, *next;

	for (r = TAILQ_FIRST(&m->remains); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->pidfd >= 0 ||
			(now < r->until_ns &&
				!(has_answer && is_let_go(m, r->pid, r->died_after, r->device))))
			continue;
		give_room(m, r->device, r->tenant, r->process);
		forget_remains(m, r);
		control_room(m->agent);
	}
}

static void memory_end_process(struct memory *m, struct process *p)
{
	if (p->is_in_grave)
		TAILQ_REMOVE(&m->graves, p, grave);
	p->is_in_grave = false;
	p->is_buried = true;
	p->agent->has_dead = true;
	tenant_give_slot(p->tenant, p->index);
}

static void release_device(struct memory *m, struct process *p, uint32_t at)
{
	struct tenant_device *td = &p->tenant->devices[at];

	p->grave_devices &= ~(1u << at);
	share_remove_process(td, p, p->died_after, &m->daemon_seq);
	recount_device(m, td);
	give_room(m, td->device, p->tenant->id, p->index);
}

/* Whether the devices still list a dead process. */
static bool is_expecting(const struct memory *m)
{
	const struct remains *r;

	TAILQ_FOREACH(r, &m->remains, link)
		if (r->pidfd < 0)
			return true;
	return !TAILQ_EMPTY(&m->graves);
}

/* ---- open descriptors of shared memory ---- */

static bool is_any_left(const struct memory *m)
{
	const struct tenant *t;

	LIST_FOREACH(t, &m->agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			if (share_left_bytes(&t->devices[i]))
				return true;
	return false;
}

/*
 * Whether a query must list open descriptors: shared memory is `left` without a holder
 * (agent-share.h), or may be when a dead process is removed.
 */
static bool should_ask_descriptors(const struct memory *m)
{
	const struct process *p;

	TAILQ_FOREACH(p, &m->graves, grave)
		for (uint32_t i = 0; i < p->tenant->n; i++)
			if (p->grave_devices & 1u << i && share_bytes(&p->tenant->devices[i], p))
				return true;
	return is_any_left(m);
}

static void look_at_left(struct memory *m)
{
	if (!loop_timer_is_armed(&m->timer) && is_any_left(m))
		loop_set_timer(&m->timer, clock_now_ns() + LOOK_AT_LEFT_NS);
}

/* Ends tenants that lived on only because of open descriptors. */
static void visit_left(struct memory *m)
{
	const uint64_t now = clock_now_ns();
	struct tenant *t;

	LIST_FOREACH(t, &m->agent->tenants, link) {
		bool was_any = false;

		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			was_any |= share_is_any(&t->devices[i]);
			share_look(&t->devices[i], &m->open, m->open_question, &m->daemon_seq);
		}
		if (was_any && tenant_has_ended(t, now))
			tenant_end(t);
	}
}

static void visit_graves(struct memory *m, bool has_answer)
{
	uint64_t now = clock_now_ns();
	struct process *p, *next;

	for (p = TAILQ_FIRST(&m->graves); p; p = next) {
		next = TAILQ_NEXT(p, grave);
		for (uint32_t i = 0; i < p->tenant->n; i++) {
			if (!(p->grave_devices & 1u << i))
				continue;
			if (now >= p->grave_until_ns ||
				(has_answer &&
					is_let_go(m, p->pid, p->died_after,
						p->tenant->devices[i].device)))
				release_device(m, p, i);
		}
		if (!p->grave_devices)
			memory_end_process(m, p);
	}
	visit_remains(m, has_answer, now);
	if (has_answer)
		visit_left(m);
	if (is_expecting(m))
		loop_set_timer(&m->timer, now + ASK_AGAIN_NS);
	else
		look_at_left(m);
}

void memory_process_exited(struct process *p)
{
	struct memory *m = p->agent->memory;
	struct question *q, *next_q;
	struct wait *w, *next_w;

	for (q = TAILQ_FIRST(&m->questions); q; q = next_q) {
		next_q = TAILQ_NEXT(q, link);
		if (q->process == p) {
			TAILQ_REMOVE(&m->questions, q, link);
			free(q);
		}
	}
	for (w = TAILQ_FIRST(&m->waits); w; w = next_w) {
		next_w = TAILQ_NEXT(w, link);
		if (w->process == p)
			forget_wait(m, w);
	}
	p->is_in_grave = true;
	p->died_after = m->begun;
	p->grave_until_ns = clock_now_ns() + MEMORY_GRACE_NS;
	TAILQ_INSERT_TAIL(&m->graves, p, grave);
	for (uint32_t i = 0; i < p->tenant->n; i++) {
		p->tenant->devices[i].denied += denied_to(p, i);
		p->grave_devices |= 1u << i;
		if (p->tenant->is_ending)
			leave_remains(m, p, i);
		else if (holds_nothing(p, i))
			release_device(m, p, i);
	}
	if (!p->grave_devices)
		memory_end_process(m, p);
	else
		memory_read_processes(m);
	memory_look_at_held(p->agent);
}

void memory_tenant_removed(struct tenant *t)
{
	struct memory *m = t->agent->memory;
	struct process *p, *next;

	for (p = TAILQ_FIRST(&m->graves); p; p = next) {
		next = TAILQ_NEXT(p, grave);
		if (p->tenant != t)
			continue;
		for (uint32_t i = 0; i < t->n; i++)
			if (p->grave_devices & 1u << i)
				leave_remains(m, p, i);
		memory_end_process(m, p);
	}
	context_cost_tenant_gone(t);
}

/* ---- the job ---- */

void memory_report_fault(struct agent *agent, const struct device *device)
{
	struct process *p;

	LIST_FOREACH(p, &agent->processes, link)
		for (uint32_t i = 0; i < p->tenant->n && !p->is_dead; i++)
			if (p->tenant->devices[i].device == device)
				client_send_diagnostic(p->conn, device->index, "device %s %s",
					device->info.uuid, device_fault_text(device));
}

static void query_done(struct worker_job *job)
{
	struct query *q = (struct query *)job;
	struct memory *m = q->agent->memory;
	struct memory_unmanaged *swap = m->listed;
	bool is_better = false;

	m->listed = q->listed;
	m->n_listed = q->n_listed;
	q->listed = swap;
	if (q->asks_descriptors) {
		open_locks_done(&m->open);
		m->open = q->open;
		m->open_question = m->begun;
		q->open = (struct open_locks){0};
	}
	m->is_asking = false;
	m->generation++;
	m->answered_ns = clock_now_ns();
	for (uint32_t i = 0; i < q->n_devices; i++) {
		struct device *d = &m->agent->devices->devices[i];
		const bool was_faulty = device_is_faulty(d), was_lost = d->is_lost;

		q->answers[i].is_before_xid = d->n_xids != q->n_xids[i];
		m->is_known[i] = q->is_listed[i];
		device_note_answer(d, &q->answers[i], clock_real_ns());
		if (d->is_lost && !was_lost)
			memory_report_fault(m->agent, d);
		if (q->used_bytes[i] != NVML_UNKNOWN)
			d->used_bytes = q->used_bytes[i];
		is_better |= was_faulty && !device_is_faulty(d);
	}
	if (is_better)
		control_room(m->agent);
	if (m->agent->is_leaving)
		return;
	answer_questions(m);
	visit_graves(m, true);
	if (m->must_ask_again) {
		m->must_ask_again = false;
		memory_read_processes(m);
	}
}

static void memory_read_processes(struct memory *m)
{
	if (m->is_asking) {
		m->must_ask_again = true;
		return;
	}
	if (m->agent->is_leaving)
		return;
	m->is_asking = true;
	m->begun++;
	for (uint32_t i = 0; i < m->query.n_devices; i++)
		m->query.n_xids[i] = m->agent->devices->devices[i].n_xids;
	m->query.asks_descriptors = should_ask_descriptors(m);
	m->query.job = (struct worker_job){.run = run_query, .done = query_done};
	worker_submit(m->agent->worker, &m->query.job);
}

static void memory_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct memory *m = timer->data;

	visit_graves(m, false);
	if (is_expecting(m) || is_any_left(m))
		memory_read_processes(m);
}

void memory_measure(struct process *p, uint32_t at, uint32_t request)
{
	struct memory *m = p->agent->memory;
	struct question *q;
	uint32_t n = 0;

	TAILQ_FOREACH(q, &m->questions, link)
		n += q->process == p;
	q = n < WAITS_PER_PROCESS ? calloc(1, sizeof(*q)) : NULL;
	if (!q) {
		answer_memory(p, at, MSG_MEASURED, request, EAGAIN, 0);
		return;
	}
	*q = (struct question){.process = p, .at = at, .request = request, .asked = m->begun};
	TAILQ_INSERT_TAIL(&m->questions, q, link);
	memory_read_processes(m);
}

void memory_refresh(struct agent *agent)
{
	if (clock_since_ns(clock_now_ns(), agent->memory->answered_ns) >= REFRESH_NS)
		memory_read_processes(agent->memory);
}

void memory_query(struct agent *agent)
{
	memory_read_processes(agent->memory);
}

size_t memory_listed(struct agent *agent, struct memory_unmanaged *ret, size_t max)
{
	size_t n = MIN((size_t)agent->memory->n_listed, max);

	memcpy(ret, agent->memory->listed, n * sizeof(*ret));
	return n;
}

uint64_t memory_generation(const struct agent *agent)
{
	return agent->memory->generation;
}

int memory_new(struct agent *agent, struct error *err)
{
	struct memory *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return fail(err, ENOMEM, "out of memory");
	agent->memory = m;
	m->agent = agent;
	TAILQ_INIT(&m->questions);
	TAILQ_INIT(&m->waits);
	TAILQ_INIT(&m->graves);
	TAILQ_INIT(&m->remains);
	m->listed = calloc(LISTED_MAX, sizeof(*m->listed));
	m->query = (struct query){
		.agent = agent,
		.nvml = agent->devices->nvml,
		.n_devices = agent->devices->n,
		.listed = calloc(LISTED_MAX, sizeof(*m->query.listed)),
		.scratch = calloc(LISTED_MAX, sizeof(*m->query.scratch)),
		.uuids = calloc(ARBITER_DEVICES, sizeof(*m->query.uuids)),
		.parents = calloc(ARBITER_DEVICES, sizeof(*m->query.parents)),
	};
	if (!m->listed || !m->query.listed || !m->query.scratch || !m->query.uuids ||
		!m->query.parents)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < agent->devices->n; i++) {
		const struct nvml_info *info = &agent->devices->devices[i].info;

		m->query.handles[i] = m->query.whole[i] = info->handle;
		memcpy(m->query.uuids[i], info->uuid, sizeof(info->uuid));
		memcpy(m->query.parents[i], info->parent, sizeof(info->parent));
		if (info->is_mig && agent->devices->nvml)
			m->query.whole[i] = nvml_find(agent->devices->nvml, info->parent);
	}
	m->timer.data = m;
	r = loop_add_timer(agent->loop, &m->timer, memory_on_timer);
	if (r < 0)
		return fail_errno(err, -r, "start a timer");
	memory_read_processes(m);
	return 0;
}

void memory_free(struct agent *agent)
{
	struct memory *m = agent->memory;
	struct question *q;
	struct wait *w;

	if (!m)
		return;
	while ((q = TAILQ_FIRST(&m->questions))) {
		TAILQ_REMOVE(&m->questions, q, link);
		free(q);
	}
	while ((w = TAILQ_FIRST(&m->waits)))
		forget_wait(m, w);
	while (!TAILQ_EMPTY(&m->remains))
		forget_remains(m, TAILQ_FIRST(&m->remains));
	loop_remove_timer(&m->timer);
	free(m->listed);
	free(m->query.listed);
	free(m->query.scratch);
	free(m->query.uuids);
	free(m->query.parents);
	open_locks_done(&m->query.open);
	open_locks_done(&m->open);
	free(m);
	agent->memory = NULL;
}
