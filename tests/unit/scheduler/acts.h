/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler of its own for each test: objects as JSON with ' for ", virtual time, and the actions
 * that are expected, in words that read as sentences. Pods are in the namespace that `space` names.
 */
#ifndef TESTS_UNIT_SCHEDULER_ACTS_H
#define TESTS_UNIT_SCHEDULER_ACTS_H

#include "rules.h"
#include "scheduler/decide.h"
#include "scheduler/sched.h"

#define SECOND UINT64_C(1000000000)
#define START_NS (1000 * SECOND)
#define REAL_NS (UINT64_C(1767323045) * SECOND) /* 2026-01-02T03:04:05Z, at START_NS */

#define SHARE(x) "'divvy.gpu/request':'" x "'"

extern struct sched *sched;
extern uint64_t acts_now_ns;
extern const char *space;           /* "s" */
extern const char *spec_of_all;     /* more of the spec of all pods; "" */
extern const char *requests_of_all; /* more that their containers request; "" */

/* Another policy than best fit; before there is anything. */
void acts_use(const struct place_policy *policy);

/* Of cmocka. */
int acts_begin(void **state);
int acts_end(void **state);

void pass(uint64_t seconds);

void set(int kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void add_lease(const char *name, const char *renewed);
void add_gpus(const char *name, int n, const char *tenants);
/* A node with that many GPUs of 1,000,000 bytes, whose daemon lives. */
void add_node(const char *name, int n);
/* annotations: JSON members, with quotes; more: of the spec. */
void add_pod(const char *name, const char *annotations, const char *more);
/* The pod as the API server has it once it is bound as was decided. */
void confirm(const struct cpod *pod, const char *annotations);

/* The next action of that kind for that pod; skips reports before it. */
const struct cpod *next(enum sched_act act, const char *name, const char *text);
void told(const char *name, const char *sentence);
void nothing(void);
const char *device_of(const struct cpod *pod);

#endif
