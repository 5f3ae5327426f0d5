/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of a replay: read from a trace, or generated from a shape and a seed. Integers and no
 * libm, so that a seed gives the same tasks on every machine. Pure.
 */
#ifndef REPLAY_WORKLOAD_H
#define REPLAY_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/rand.h"
#include "base/str.h"
#include "replay/cluster.h"
#include "spec/spec.h"

#define WORKLOAD_TASKS_MAX (1u << 20)
#define WORKLOAD_CHOICES_MAX 16u
#define WORKLOAD_GANG_MAX 1024u
#define WORKLOAD_LABELS_MAX 4096u
#define WORKLOAD_PART_MIN 50u /* permille: the least of a normal demand, and its least mean */
/* Of arrivals and of work each: 200 days. Times a share in permille it still is a uint64_t. */
#define WORKLOAD_TIME_MAX_NS UINT64_C(17280000000000000)
#define WORKLOAD_WORK_MAX_NS (WORKLOAD_TIME_MAX_NS / 64) /* of a generated task, mean or longest */

struct task {
	/* Models and queues as the cluster numbers them; labels: any to WORKLOAD_LABELS_MAX. */
	struct place_spec spec;
	/* Permille of each device that it can make use of and may have; at least the request. */
	uint32_t limit;
	uint32_t line; /* of the file that it is from, from 1; 0: it is made */
	/* Those of the same, one behind the other, start together, and are a group; 0: none. */
	uint32_t gang;
	uint32_t kind;      /* those of one slow one another, as the replay says; 0: of none */
	uint32_t threshold; /* permille of the gang that has to start together; 0: all */
	/* Where the cluster has networks (place-mode.h); bandwidth and latency 0: any. */
	enum spec_mode mode;
	uint32_t least_mbit, most_latency_us;
	uint64_t arrives_ns, work_ns; /* work: how long it takes when it has its limit */
};

struct workload {
	struct task *tasks; /* owned */
	uint32_t n, room;
	char (*labels)[SPEC_LABEL]; /* names of labels, from that of 1 on; owned */
	uint32_t n_labels;          /* the others are called by their numbers */
	bool has_times;
};

void workload_done(struct workload *w);
#define _cleanup_workload_ _cleanup_(workload_done)

/* A copy; -EINVAL for what place_spec_check() refuses or a time above the most, -ENOMEM. */
int workload_add(struct workload *w, const struct task *task, struct error *err);

/* Into the order of arrival; who come at once stay in that of the file. -ENOMEM. */
int workload_sort(struct workload *w, struct error *err);
/* The text of a file of pods in the OpenB trace's format; has_times: when each comes and ends. */
int workload_read_openb(
	struct workload *w, struct cluster *cluster, struct str text, struct error *err);

/*
 * An order of arrival: tasks drawn with replacement until what has arrived is at least `permille`
 * of the devices. Returns the number, the caller's *ret_order. -EINVAL where no task asks any, or
 * more than OPENB_ROWS_MAX were needed.
 */
int workload_draw(const struct workload *w, uint32_t n_devices, uint32_t permille,
	struct rand *rand, uint32_t **ret_order, struct error *err);

/* How a trace's tasks come without end: Poisson arrivals, durations that are not the trace's. */
struct workload_redraw {
	uint32_t n;                        /* tasks */
	uint32_t n_devices, load;          /* so that they ask for that permille of the devices */
	uint64_t work_min_ns, work_max_ns; /* as those of a shape */
};

/*
 * Tasks drawn from another workload with replacement, added. -EINVAL where no task asks for any
 * device or a bound is passed, -ENOMEM.
 */
int workload_redraw(struct workload *w, const struct workload *from,
	const struct workload_redraw *how, uint64_t seed, struct error *err);

/* 0..n-1 in random order, each equally likely. */
void workload_shuffle(uint32_t *items, uint32_t n, struct rand *rand);

/* ---- generated ---- */

struct workload_choice {
	uint32_t value, weight;
};

/* One of these, as often as its weight says. */
struct workload_choices {
	struct workload_choice of[WORKLOAD_CHOICES_MAX];
	uint32_t n;
};

struct workload_shape {
	const char *name, *about;
	const char *nodes;             /* as cluster_like() takes them */
	uint64_t gap_ns;               /* mean time between arrivals, which are Poisson's */
	uint32_t n_tasks;              /* so many at most */
	uint64_t span_ns;              /* or as many as arrive so long; 0: without end */
	struct workload_choices whole; /* whole devices; 0: a share of one, as demand says */
	uint32_t demand, demand_sigma; /* permille, normal within 50..1000; 0: uniform 1..1000 */
	uint32_t memory, memory_sigma; /* of a device, likewise; 0: as the demand */
	uint32_t limit;                /* permille, where above the demand; 0: the demand */
	uint64_t work_min_ns, work_max_ns; /* uniform; min 0: exponential with the mean max */
	struct workload_choices gangs, priorities;
	uint32_t threshold; /* of gangs, permille; 0: all */
	/* Labels by number; 0, or none of them: without. */
	struct workload_choices affinity, anti_affinity, preferred_anti_affinity, exclusion;
	struct workload_choices kinds; /* of tasks that slow their like; 0, or none: of none */
	bool is_apart;                 /* those of a kind have it as anti-affinity */
	bool prefers_apart;            /* or as preferred anti-affinity */
};

/* The named shapes; NULL behind the last. */
const struct workload_shape *workload_shape_at(size_t i);
const struct workload_shape *workload_shape_find(const char *name); /* or NULL */

/* "1:9,4:1" or "1,4": values up to max, weights from 1 to 1,000,000. -EINVAL */
int workload_choices_parse(
	struct str text, uint32_t max, struct workload_choices *ret_choices, struct error *err);

/* How long work takes, as a shape has it: -EINVAL with what is possible. */
int workload_work_check(uint64_t min_ns, uint64_t max_ns, struct error *err);
/* -EINVAL with the field and what is possible. */
int workload_shape_check(const struct workload_shape *shape, struct error *err);
int workload_generate(
	struct workload *w, const struct workload_shape *shape, uint64_t seed, struct error *err);

#endif
