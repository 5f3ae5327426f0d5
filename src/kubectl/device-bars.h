/* SPDX-License-Identifier: Apache-2.0 */
/* Formats report_devices() as bars, with the tenants below each device. Pure. */
#ifndef KUBECTL_DEVICE_BARS_H
#define KUBECTL_DEVICE_BARS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

#define DRAW_BAR 40u /* cells of a bar; one is 2.5 % of a device */

/*
 * A bar shows use in the last 10 s (full), the rest of the granted share (half), and free share
 * (dots); is_ascii: "#", "=" and ".".
 */
void draw_bar(uint32_t granted, uint32_t got, bool is_ascii, struct buf *out);

void draw_devices(const json_t *devices, bool is_ascii, struct buf *out);

/* Formats report_bare_nodes(), one line each. */
void draw_bare_nodes(const json_t *nodes, struct buf *out);

#endif
