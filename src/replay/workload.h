/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tasks of a placement simulation, read from a trace or generated from a shape and a seed. The
 * generator uses integers and no libm, so a seed gives the same tasks on every machine. Pure.
 */
#ifndef REPLAY_WORKLOAD_H
#define REPLAY_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/rand.h"
#include "base/str.h"
#include "replay/replay-cluster.h"
#include "spec/spec.h"

#define WORKLOAD_TASKS_MAX (1u << 20)
#define WORKLOAD_CHOICES_MAX 16u
#define WORKLOAD_GANG_MAX 1024u
#define WORKLOAD_LABELS_MAX 4096u
/* permille; smallest demand that a normal distribution may draw, and smallest permitted mean */
#define WORKLOAD_PART_MIN 50u
/*
 * Largest arrival time and largest work: 200 days. Their product with a share in permille fits in a
 * uint64_t.
 */
#define WORKLOAD_TIME_MAX_NS UINT64_C(17280000000000000)
/* mean or longest work of a generated task */
#define WORKLOAD_WORK_MAX_NS (WORKLOAD_TIME_MAX_NS / 64)

struct task {
	/*
	 * Models and queues have the cluster's numbers. Labels are numbers up to
	 * WORKLOAD_LABELS_MAX.
	 */
	struct place_spec spec;
	/* Permille of each device that the task can use at most; at least its request. */
	uint32_t limit;
	uint32_t line; /* line of the input file, from 1; 0: generated */
	/* Neighbouring tasks with the same number are a gang: they start together. 0: no gang. */
	uint32_t gang;
	/* tasks of the same kind slow each other down (see replay.h); 0: no kind */
	uint32_t kind;
	uint32_t threshold; /* permille of the gang that has to start together; 0: all */
	/*
	 * Only for clusters with networks (place-mode.h). Bandwidth or latency 0: no requirement.
	 */
	enum spec_mode mode;
	uint32_t least_mbit, most_latency_us;
	uint64_t arrives_ns, work_ns; /* work: duration at the task's limit */
};

struct workload {
	struct task *tasks; /* owned */
	uint32_t n, room;
	char (*labels)[SPEC_LABEL]; /* names of labels, from label 1; owned */
	uint32_t n_labels;          /* labels above n_labels are named by their numbers */
	bool has_times;
};

void workload_done(struct workload *w);
#define _cleanup_workload_ _cleanup_(workload_done)

/*
 * Copies the task. Errors: -EINVAL if place_spec_check() refuses the spec or a field exceeds its
 * maximum, -ENOMEM.
 */
int workload_add(struct workload *w, const struct task *task, struct error *err);

/* Sorts by arrival; tasks with equal times keep their order. Returns -ENOMEM, else 0. */
int workload_sort(struct workload *w, struct error *err);
/* Reads a pod file of the OpenB trace. has_times is true if every row has both times. */
int workload_read_openb(
	struct workload *w, struct cluster *cluster, struct str text, struct error *err);

/*
 * Draws an order of arrival: tasks, with replacement, until their requests are at least `permille`
 * of the devices. Returns the length of *ret_order, which the caller frees. Errors: -EINVAL if no
 * task requests devices or more than OPENB_ROWS_MAX draws would be needed, -ENOMEM.
 */
int workload_draw(const struct workload *w, uint32_t n_devices, uint32_t permille,
	struct rand *rand, uint32_t **ret_order, struct error *err);

/*
 * Parameters for new arrivals of a trace's tasks: Poisson arrivals, and durations that replace the
 * trace's.
 */
struct workload_redraw {
	uint32_t n; /* number of tasks */
	/* load: mean sum of the requests at one time, in permille of n_devices devices */
	uint32_t n_devices, load;
	uint64_t work_min_ns, work_max_ns; /* as in struct workload_shape */
};

/*
 * Adds tasks drawn from `from` with replacement. Errors: -EINVAL if no task requests a device or a
 * parameter is out of range, -ENOMEM.
 */
int workload_redraw(struct workload *w, const struct workload *from,
	const struct workload_redraw *how, uint64_t seed, struct error *err);

/* Writes 0..n-1 in random order; each order is equally likely. */
void workload_shuffle(uint32_t *items, uint32_t n, struct rand *rand);

/* ---- generated ---- */

struct workload_choice {
	uint32_t value, weight;
};

/* A random choice of values, each with its weight. */
struct workload_choices {
	struct workload_choice of[WORKLOAD_CHOICES_MAX];
	uint32_t n;
};

struct workload_shape {
	const char *name, *about;
	const char *nodes; /* the cluster's nodes, in the syntax of cluster_like() */
	uint64_t gap_ns;   /* mean time between arrivals, which are Poisson */
	uint32_t n_tasks;  /* most tasks */
	uint64_t span_ns;  /* tasks arrive only within this time; 0: no limit */
	/* number of whole devices; 0: a share of one device, from `demand` */
	struct workload_choices whole;
	/* share of a task in permille, normal within 50..1000; demand 0: uniform 1..1000 */
	uint32_t demand, demand_sigma;
	/* permille of a device's memory, normal within 50..1000; memory 0: equal to the share */
	uint32_t memory, memory_sigma;
	uint32_t limit; /* permille; a task with a larger share has its share as the limit */
	/* work of a task, uniform from min to max; min 0: exponential with mean max */
	uint64_t work_min_ns, work_max_ns;
	struct workload_choices gangs, priorities;
	uint32_t threshold; /* threshold of gangs, permille; 0: all */
	/* Labels by number; 0 or no choices: no label. */
	struct workload_choices affinity, anti_affinity, preferred_anti_affinity, exclusion;
	/* kinds of tasks that slow each other down; 0 or no choices: no kind */
	struct workload_choices kinds;
	bool is_apart; /* each task's kind becomes its anti-affinity label */
	/* each task's kind becomes its preferred anti-affinity label */
	bool prefers_apart;
};

/* Returns named shape i, or NULL after the last. */
const struct workload_shape *workload_shape_at(size_t i);
/* Returns NULL for an unknown name. */
const struct workload_shape *workload_shape_find(const char *name);

/*
 * Parses "1:9,4:1" or "1,4": values up to max, weights from 1 to 1,000,000. Returns -EINVAL for
 * other text.
 */
int workload_choices_parse(
	struct str text, uint32_t max, struct workload_choices *ret_choices, struct error *err);

/* Checks the durations of a shape. Returns -EINVAL with the permitted range. */
int workload_work_check(uint64_t min_ns, uint64_t max_ns, struct error *err);
/* Returns -EINVAL with the wrong field and its permitted range. */
int workload_shape_check(const struct workload_shape *shape, struct error *err);
int workload_generate(
	struct workload *w, const struct workload_shape *shape, uint64_t seed, struct error *err);

#endif
