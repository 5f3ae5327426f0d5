/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler for each test, in virtual time. A test sets objects, as JSON with ' for ", and checks
 * the actions by next(), told() and nothing(). Pods are in the namespace `space`.
 */
#ifndef TESTS_UNIT_SCHEDULER_ACTS_H
#define TESTS_UNIT_SCHEDULER_ACTS_H

#include "rules.h"
#include "scheduler/decide.h"
#include "scheduler/sched.h"

#define SECOND UINT64_C(1000000000)
#define START_NS (1000 * SECOND)
/* 2026-01-02T03:04:05Z, the real time at START_NS */
#define REAL_NS (UINT64_C(1767323045) * SECOND)

#define SHARE(x) "'divvy.gpu/request':'" x "'"

extern struct sched *sched;
extern uint64_t acts_now_ns;
extern const char *space; /* namespace of pods; "s" at first */
/* JSON members that each pod's spec gets in addition; "" at first */
extern const char *spec_of_all;
/* JSON members that each container's requests get in addition; "" at first */
extern const char *requests_of_all;

/* Begins again with another placement policy than best fit; call before any other function. */
void acts_use(const struct place_policy *policy);

/* Setup and teardown functions for cmocka. */
int acts_begin(void **state);
int acts_end(void **state);

void pass(uint64_t seconds);

void set(int kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void add_lease(const char *name, const char *renewed);
void add_gpus(const char *name, int n, const char *tenants);
/* Adds a node with n GPUs of 1,000,000 bytes each, and a fresh Lease of its divvyd. */
void add_node(const char *name, int n);
/*
 * Adds a pod with one container. annotations, more: JSON members of the annotations and of the
 * spec.
 */
void add_pod(const char *name, const char *annotations, const char *more);
/* Confirms the decided Binding, and sets the pod as the API server has it then. */
void confirm(const struct cpod *pod, const char *annotations);

/*
 * Expects the next action to be `act` for that pod, and returns the pod. Skips conditions and
 * Events. text: the action's expected content; NULL: any.
 */
const struct cpod *next(enum sched_act act, const char *name, const char *text);
void told(const char *name, const char *sentence);
void nothing(void);
const char *device_of(const struct cpod *pod);

#endif
