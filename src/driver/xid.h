/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Xid errors by number, and the driver's lines about them in the kernel log. Only the kernel log
 * names the process that caused an Xid: NVML's events do not. Pure; any thread.
 */
#ifndef DRIVER_XID_H
#define DRIVER_XID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

enum xid_kind {
	XID_UNKNOWN, /* counts as an error of the device, but its programs may continue */
	XID_PROGRAM, /* a program can cause it on a healthy device */
	XID_NOTICE,  /* no error that concerns tenants */
	XID_DEVICE,  /* the device needs a reset, or more; its programs cannot continue */
};

enum xid_kind xid_kind(uint64_t xid);
/* A few words about the Xid; "unknown error" if xid.def lacks it. */
const char *xid_text(uint64_t xid);

/* A device's place on the PCI bus. */
struct xid_pci {
	uint32_t domain, bus, device;
};

/* Parses "00000000:0A:00.0" or "0000:0a:00". Returns 0 or -EINVAL. */
int xid_pci_parse(struct str text, struct xid_pci *ret_pci);

struct xid_line {
	struct xid_pci pci;
	uint64_t xid;
	pid_t pid; /* in the first pid namespace; 0: the line names no process */
};

/*
 * Reads a line such as "NVRM: Xid (PCI:0000:0a:00): 31, pid=1234, name=python, ...", with or
 * without the header of /dev/kmsg. Returns whether the line is about an Xid.
 */
bool xid_line_parse(struct str line, struct xid_line *ret_line);

#endif
