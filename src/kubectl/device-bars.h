/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats the list of report_devices() (report.h) as bars, with the tenants below each device.
 * Pure.
 */
#ifndef KUBECTL_DEVICE_BARS_H
#define KUBECTL_DEVICE_BARS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

#define DRAW_BAR 40u /* characters of a bar; each stands for 2.5 % of a device */

/*
 * Draws a bar of three parts: the use `got` in the last 10 s, the rest of the granted share, and
 * the share that is not granted. is_ascii: with "#", "=" and ".".
 */
void draw_bar(uint32_t granted, uint32_t got, bool is_ascii, struct buf *out);

void draw_devices(const json_t *devices, bool is_ascii, struct buf *out);

/* Formats the list of report_bare_nodes(), a line for each node. */
void draw_bare_nodes(const json_t *nodes, struct buf *out);

#endif
