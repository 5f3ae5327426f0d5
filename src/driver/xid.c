/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up Xid errors in xid.def and reads lines of the kernel log: see xid.h. Anybody may write
 * lines to the kernel log that resemble the driver's, so a line only adds a process to an Xid that
 * NVML has reported.
 */
#include "driver/xid.h"

#include <errno.h>

#include "base/parse.h"

#define PID_MAX ((uint64_t)INT32_MAX)

static const struct xid_entry {
	uint32_t xid;
	enum xid_kind kind;
	const char *text;
} entries[] = {
#define XID(number, kind, text) {number, XID_##kind, text},
#include "driver/xid.def"
#undef XID
};

static const struct xid_entry *xid_find(uint64_t xid)
{
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		if (entries[i].xid == xid)
			return &entries[i];
	return NULL;
}

enum xid_kind xid_kind(uint64_t xid)
{
	const struct xid_entry *entry = xid_find(xid);

	return entry ? entry->kind : XID_UNKNOWN;
}

const char *xid_text(uint64_t xid)
{
	const struct xid_entry *entry = xid_find(xid);

	return entry ? entry->text : "unknown error";
}

static int xid_hex(struct str text, uint32_t max, uint32_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < text.n; i++) {
		const char c = text.p[i];
		const int digit = c >= '0' && c <= '9' ? c - '0'
			: c >= 'a' && c <= 'f'         ? c - 'a' + 10
			: c >= 'A' && c <= 'F'         ? c - 'A' + 10
						       : -1;

		v = v * 16 + (uint64_t)digit;
		if (digit < 0 || v > max)
			return -EINVAL;
	}
	*ret = (uint32_t)v;
	return text.n ? 0 : -EINVAL;
}

int xid_pci_parse(struct str text, struct xid_pci *ret_pci)
{
	struct str domain, bus;
	struct xid_pci pci;

	if (!str_split(&text, ':', &domain) || !str_split(&text, ':', &bus) || !text.p)
		return -EINVAL;
	text.n = str_find(text, '.');
	if (xid_hex(domain, UINT32_MAX, &pci.domain) < 0 || xid_hex(bus, 255, &pci.bus) < 0 ||
		xid_hex(text, 31, &pci.device) < 0)
		return -EINVAL;
	*ret_pci = pci;
	return 0;
}

/* Skips everything up to the end of `mark`. */
static bool xid_skip_past(struct str *s, struct str mark)
{
	for (; s->n >= mark.n; s->p++, s->n--)
		if (str_skip_prefix(s, mark))
			return true;
	return false;
}

bool xid_line_parse(struct str line, struct xid_line *ret_line)
{
	struct xid_line found = {.pid = 0};
	struct str pci, number, pid;
	uint64_t v;

	if (!xid_skip_past(&line, STR("NVRM: Xid (PCI:")) || !str_split(&line, ')', &pci) ||
		xid_pci_parse(pci, &found.pci) < 0 || !str_skip_prefix(&line, STR(": ")))
		return false;
	str_split(&line, ',', &number);
	if (parse_uint(str_trim(number), 1, UINT32_MAX, &found.xid, NULL) < 0)
		return false;
	line = str_trim(line);
	if (line.p && str_skip_prefix(&line, STR("pid="))) {
		str_split(&line, ',', &pid);
		if (parse_uint(pid, 1, PID_MAX, &v, NULL) == 0)
			found.pid = (pid_t)v;
	}
	*ret_line = found;
	return true;
}
