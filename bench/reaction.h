/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.reaction_*: how long the daemon's loop, which opens and closes all gates, takes until it
 * reacts, with two tenants at work, quiet and beside slow work of other kinds.
 */
#ifndef BENCH_REACTION_H
#define BENCH_REACTION_H

/* One thread; needs divvy's own daemon. */
void reaction_measure(void);

#endif
