/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads the trace and the account. A reader copies a record out and then reads `written`
 * again. The copy of record n is valid only if written - n < capacity afterwards, because the
 * writer may be filling the next slot.
 */
#include "simgpu/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "simgpu/simgpu-proto.h"

struct simgpu_trace {
	struct map trace, account;
};

int simgpu_dir(char *buf, size_t size)
{
	const char *dir = getenv(SIMGPU_ENV_DIR);
	int n = dir && *dir ? snprintf(buf, size, "%s", dir)
			    : snprintf(buf, size, "/dev/shm/divvy-sim-%u", getuid());

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static int open_ring(const char *dir, const char *name, uint64_t magic, size_t record_bytes,
	struct map *ret_map, struct error *err)
{
	_cleanup_close_ int fd = -1;
	_cleanup_map_ struct map map = MAP_NONE;
	const struct simgpu_ring_head *head;
	char path[4096];
	int64_t size;
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return fail(err, ENAMETOOLONG, "folder '%s'", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	size = fd_size(fd);
	if (size < 4096)
		return fail(err, EBADMSG, "'%s' is no trace of a simulated device", path);
	r = map_fd(fd, (size_t)size, PROT_READ, &map);
	if (r < 0)
		return fail_errno(err, -r, "map '%s'", path);
	head = map.p;
	if (head->magic != magic || head->abi != SIMGPU_TRACE_ABI ||
		head->record_bytes != record_bytes || !head->capacity ||
		head->capacity > ((uint64_t)size - 4096) / record_bytes)
		return fail(err, EBADMSG, "'%s' is no trace of this version", path);
	*ret_map = map;
	map = MAP_NONE;
	return 0;
}

int simgpu_trace_open(const char *dir, struct simgpu_trace **ret_trace, struct error *err)
{
	struct simgpu_trace *t;
	char buf[4096];
	int r;

	if (!dir) {
		if (simgpu_dir(buf, sizeof(buf)) < 0)
			return fail(err, ENAMETOOLONG, "%s", SIMGPU_ENV_DIR);
		dir = buf;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return fail(err, ENOMEM, "trace");
	r = open_ring(dir, SIMGPU_FILE_TRACE, SIMGPU_TRACE_MAGIC,
		sizeof(struct simgpu_trace_record), &t->trace, err);
	if (r >= 0)
		r = open_ring(dir, SIMGPU_FILE_ACCOUNT, SIMGPU_ACCOUNT_MAGIC,
			sizeof(struct simgpu_account_record), &t->account, err);
	if (r < 0) {
		simgpu_trace_close(t);
		return r;
	}
	*ret_trace = t;
	return 0;
}

void simgpu_trace_close(struct simgpu_trace *t)
{
	if (!t)
		return;
	map_done(&t->trace);
	map_done(&t->account);
	free(t);
}

static const struct simgpu_ring_head *head_of(const struct map *map)
{
	return map->p;
}

static uint64_t trace_written(const struct map *map)
{
	return __atomic_load_n((const uint64_t *)&head_of(map)->written, __ATOMIC_ACQUIRE);
}

static uint64_t trace_oldest(const struct map *map)
{
	uint64_t n = trace_written(map), capacity = head_of(map)->capacity;

	return n >= capacity ? n - capacity + 1 : 0;
}

static int trace_get(const struct map *map, uint64_t n, size_t bytes, void *ret)
{
	const struct simgpu_ring_head *head = head_of(map);

	if (n >= trace_written(map))
		return -ENOENT;
	memcpy(ret, (const char *)head + 4096 + n % head->capacity * bytes, bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return n < trace_oldest(map) ? -ESTALE : 0;
}

uint64_t simgpu_trace_written(const struct simgpu_trace *t)
{
	return trace_written(&t->trace);
}

uint64_t simgpu_trace_lost(const struct simgpu_trace *t)
{
	return trace_oldest(&t->trace);
}

uint64_t simgpu_trace_now_ns(const struct simgpu_trace *t)
{
	return __atomic_load_n((const uint64_t *)&head_of(&t->trace)->now_ns, __ATOMIC_ACQUIRE);
}

uint64_t simgpu_trace_start_ns(const struct simgpu_trace *t)
{
	return head_of(&t->trace)->start_ns;
}

int simgpu_trace_get(
	const struct simgpu_trace *t, uint64_t n, struct simgpu_trace_record *ret_record)
{
	return trace_get(&t->trace, n, sizeof(*ret_record), ret_record);
}

uint64_t simgpu_account_written(const struct simgpu_trace *t)
{
	return trace_written(&t->account);
}

uint64_t simgpu_account_lost(const struct simgpu_trace *t)
{
	return trace_oldest(&t->account);
}

int simgpu_account_get(
	const struct simgpu_trace *t, uint64_t n, struct simgpu_account_record *ret_record)
{
	return trace_get(&t->account, n, sizeof(*ret_record), ret_record);
}

/* ---- busy time ---- */

static bool has_pid(const pid_t *pids, size_t n, uint32_t pid)
{
	if (!pids)
		return true;
	for (size_t i = 0; i < n; i++)
		if (pids[i] == (pid_t)pid)
			return true;
	return false;
}

static int by_start(const void *a, const void *b)
{
	const struct simgpu_interval *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

struct intervals {
	struct simgpu_interval *v;
	size_t n, cap;
};

static int add_interval(struct intervals *s, uint64_t start, uint64_t end)
{
	if (s->n && s->v[s->n - 1].end_ns == start) {
		s->v[s->n - 1].end_ns = end;
		return 0;
	}
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 1024;
		struct simgpu_interval *v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct simgpu_interval){start, end};
	return 0;
}

static void trace_merge(struct intervals *s)
{
	size_t out = 0;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), by_start);
	for (size_t i = 1; i < s->n; i++) {
		if (s->v[i].start_ns <= s->v[out].end_ns)
			s->v[out].end_ns = MAX(s->v[out].end_ns, s->v[i].end_ns);
		else
			s->v[++out] = s->v[i];
	}
	s->n = out + 1;
}

int simgpu_busy_load(const struct simgpu_trace *t, const pid_t *pids, size_t npids, int device,
	int engine, uint64_t t0_ns, uint64_t t1_ns, struct simgpu_busy *ret_busy)
{
	struct intervals s = {0};
	uint64_t end = simgpu_trace_written(t), *sum;

	for (uint64_t n = simgpu_trace_lost(t); n < end; n++) {
		struct simgpu_trace_record r;

		if (simgpu_trace_get(t, n, &r) < 0 || r.kind == SIMGPU_TRACE_SWITCH ||
			r.engine != engine || (device >= 0 && r.device != device) ||
			r.end_ns <= t0_ns || r.start_ns >= t1_ns || !has_pid(pids, npids, r.pid))
			continue;
		if (add_interval(&s, MAX(r.start_ns, t0_ns), MIN(r.end_ns, t1_ns)) < 0) {
			free(s.v);
			return -ENOMEM;
		}
	}
	trace_merge(&s);
	sum = malloc((s.n + 1) * sizeof(*sum));
	if (!sum) {
		free(s.v);
		return -ENOMEM;
	}
	sum[0] = 0;
	for (size_t i = 0; i < s.n; i++)
		sum[i + 1] = sum[i] + (s.v[i].end_ns - s.v[i].start_ns);
	*ret_busy = (struct simgpu_busy){s.v, s.n, sum};
	return 0;
}

void simgpu_busy_done(struct simgpu_busy *busy)
{
	free(busy->v);
	free(busy->sum_ns);
	*busy = (struct simgpu_busy){0};
}

/* Returns the busy time before t. */
static uint64_t busy_before(const struct simgpu_busy *b, uint64_t t)
{
	size_t lo = 0, hi = b->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (b->v[mid].start_ns < t)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return 0;
	return b->sum_ns[lo - 1] + MIN(b->v[lo - 1].end_ns, t) - b->v[lo - 1].start_ns;
}

uint64_t simgpu_busy_ns(const struct simgpu_busy *busy, uint64_t t0_ns, uint64_t t1_ns)
{
	return t1_ns > t0_ns ? busy_before(busy, t1_ns) - busy_before(busy, t0_ns) : 0;
}

uint64_t simgpu_busy_worst_window(const struct simgpu_busy *busy, uint64_t t0_ns, uint64_t t1_ns,
	uint64_t window_ns, uint64_t step_ns, uint64_t want_millionths, uint64_t *ret_at_ns)
{
	uint64_t worst = 0, at = t0_ns;

	for (uint64_t t = t0_ns; window_ns && step_ns && t + window_ns <= t1_ns; t += step_ns) {
		uint64_t got = (uint64_t)((unsigned __int128)simgpu_busy_ns(
						  busy, t, t + window_ns) *
			1000000 / window_ns);
		uint64_t off = got > want_millionths ? got - want_millionths
						     : want_millionths - got;

		if (off > worst) {
			worst = off;
			at = t;
		}
	}
	if (ret_at_ns)
		*ret_at_ns = at;
	return worst;
}

uint64_t simgpu_busy_max_window(const struct simgpu_busy *busy, uint64_t t0_ns, uint64_t t1_ns,
	uint64_t window_ns, uint64_t step_ns)
{
	uint64_t most = 0;

	for (uint64_t t = t0_ns; window_ns && step_ns && t + window_ns <= t1_ns; t += step_ns)
		most = MAX(most, simgpu_busy_ns(busy, t, t + window_ns));
	return most;
}

/* ---- handovers ---- */

int simgpu_trace_handovers(const struct simgpu_trace *t, int device, uint64_t t0_ns, uint64_t t1_ns,
	struct simgpu_handover **ret_v, size_t *ret_n)
{
	uint64_t end = simgpu_trace_written(t), last_end = 0, switched = 0;
	struct simgpu_handover *v = NULL;
	size_t n = 0, cap = 0;
	uint32_t last_pid = 0;

	for (uint64_t i = simgpu_trace_lost(t); i < end; i++) {
		struct simgpu_trace_record r;

		if (simgpu_trace_get(t, i, &r) < 0 || r.engine != SIMGPU_ENGINE_COMPUTE ||
			r.device != device)
			continue;
		if (r.kind == SIMGPU_TRACE_SWITCH) {
			switched += r.end_ns - r.start_ns;
			continue;
		}
		if (last_pid && r.pid != last_pid && r.start_ns >= t0_ns && r.start_ns < t1_ns) {
			if (n == cap) {
				size_t more = cap ? 2 * cap : 256;
				struct simgpu_handover *p = realloc(v, more * sizeof(*p));

				if (!p) {
					free(v);
					return -ENOMEM;
				}
				v = p;
				cap = more;
			}
			v[n++] = (struct simgpu_handover){
				.at_ns = last_end,
				.gap_ns = r.start_ns > last_end ? r.start_ns - last_end : 0,
				.switch_ns = switched,
				.from = (pid_t)last_pid,
				.to = (pid_t)r.pid,
			};
		}
		switched = 0;
		last_pid = r.pid;
		last_end = MAX(last_end, r.end_ns);
	}
	*ret_v = v;
	*ret_n = n;
	return 0;
}

/* ---- account ---- */

struct held {
	uint32_t pid;
	uint64_t bytes;
};

struct sums {
	struct held *v;
	size_t n, cap;
	uint64_t total;
};

static int account_add(struct sums *s, const struct simgpu_account_record *r)
{
	size_t i;

	for (i = 0; i < s->n && s->v[i].pid != r->pid; i++)
		;
	if (i == s->n) {
		if (s->n == s->cap) {
			size_t cap = s->cap ? 2 * s->cap : 64;
			struct held *v = realloc(s->v, cap * sizeof(*v));

			if (!v)
				return -ENOMEM;
			s->v = v;
			s->cap = cap;
		}
		s->v[s->n++] = (struct held){.pid = r->pid};
	}
	s->total = s->total - s->v[i].bytes + r->bytes;
	s->v[i].bytes = r->bytes;
	if (!r->bytes)
		s->v[i] = s->v[--s->n];
	return 0;
}

static int account_walk(const struct simgpu_trace *t, const pid_t *pids, size_t npids, int device,
	uint64_t t0_ns, uint64_t t1_ns, uint64_t quota, uint64_t *ret_max, uint64_t *ret_at,
	uint64_t *ret_over)
{
	uint64_t end = simgpu_account_written(t), max = 0, at = t0_ns, over = 0;
	struct sums s = {0};

	for (uint64_t n = trace_oldest(&t->account); n < end; n++) {
		struct simgpu_account_record r;

		if (simgpu_account_get(t, n, &r) < 0 || r.device != device ||
			!has_pid(pids, npids, r.pid))
			continue;
		if (r.t_ns >= t1_ns)
			break;
		/* counts the memory that the processes held when the interval began */
		if (r.t_ns > t0_ns && s.total > max)
			max = s.total;
		if (account_add(&s, &r) < 0) {
			free(s.v);
			return -ENOMEM;
		}
		if (r.t_ns < t0_ns)
			continue;
		over += s.total > quota;
		if (s.total > max) {
			max = s.total;
			at = r.t_ns;
		}
	}
	max = MAX(max, s.total);
	free(s.v);
	*ret_max = max;
	*ret_at = at;
	*ret_over = over;
	return 0;
}

int simgpu_account_max(const struct simgpu_trace *t, const pid_t *pids, size_t npids, int device,
	uint64_t t0_ns, uint64_t t1_ns, uint64_t *ret_bytes, uint64_t *ret_at_ns)
{
	uint64_t at, over;
	int r = account_walk(
		t, pids, npids, device, t0_ns, t1_ns, UINT64_MAX, ret_bytes, &at, &over);

	if (r >= 0 && ret_at_ns)
		*ret_at_ns = at;
	return r;
}

int simgpu_account_breaches(const struct simgpu_trace *t, const pid_t *pids, size_t npids,
	int device, uint64_t quota_bytes, uint64_t *ret_count)
{
	uint64_t max, at;

	return account_walk(
		t, pids, npids, device, 0, UINT64_MAX, quota_bytes, &max, &at, ret_count);
}
