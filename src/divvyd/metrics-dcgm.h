/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics under the names, units and labels of NVIDIA's dcgm-exporter, for dashboards that were
 * made for this exporter. Only the loop's thread calls this function.
 */
#ifndef DIVVYD_METRICS_DCGM_H
#define DIVVYD_METRICS_DCGM_H

#include "agent/agent.h"
#include "base/str.h"

/* agent_options.add_metrics: appends to `out`. A failed allocation becomes the error of `out`. */
void metrics_add_dcgm(const struct agent *agent, struct buf *out);

#endif
