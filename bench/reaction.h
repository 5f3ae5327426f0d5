/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.reaction_*: reaction time of the daemon's loop, which opens and closes all gates, with two
 * tenants at work: without other load, and beside slow work of several kinds.
 */
#ifndef BENCH_REACTION_H
#define BENCH_REACTION_H

/* One thread; needs divvy's own daemon. */
void reaction_measure(void);

#endif
