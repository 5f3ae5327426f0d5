/* SPDX-License-Identifier: Apache-2.0 */
/* Xid errors by number, and the kernel log's lines about them. */
#include "unit.h"

#include "driver/xid.h"

static void each_xid_has_a_kind_and_a_short_text(void **state)
{
	assert_int_equal(xid_kind(13), XID_PROGRAM);
	assert_int_equal(xid_kind(31), XID_PROGRAM);
	assert_int_equal(xid_kind(63), XID_NOTICE);
	assert_int_equal(xid_kind(79), XID_DEVICE);
	assert_int_equal(xid_kind(999), XID_UNKNOWN);
	assert_int_equal(xid_kind(UINT64_C(13) << 32 | 13), XID_UNKNOWN);
	assert_string_equal(xid_text(79), "GPU has fallen off the bus");
	assert_string_equal(xid_text(999), "unknown error");
	for (uint64_t xid = 0; xid < 200; xid++)
		assert_true(strlen(xid_text(xid)) <= 47);
}

static const struct {
	const char *line;
	uint32_t domain, bus, device;
	uint64_t xid; /* 0: the line is not about an Xid */
	pid_t pid;
} lines[] = {
	{"NVRM: Xid (PCI:0000:0a:00): 31, pid=1234, name=python3, Ch 00000008, intr 00000000. MMU "
	 "Fault",
		0, 0x0a, 0, 31, 1234},
	{"4,1801,75230155,-;NVRM: Xid (PCI:0000:89:1f): 79, GPU has fallen off the bus.", 0, 0x89,
		0x1f, 79, 0},
	{"NVRM: Xid (PCI:0001:B3:00): 48, pid='<unknown>', name=<unknown>, DBE", 1, 0xb3, 0, 48, 0},
	{"NVRM: Xid (PCI:0000:0a:00.0): 13, pid=7", 0, 0x0a, 0, 13, 7},
	{"NVRM: Xid (PCI:0000:0a:00): 43, pid=99999999999, name=x", 0, 0x0a, 0, 43, 0},
	{"NVRM: Xid (PCI:0000:0a:00): 154", 0, 0x0a, 0, 154, 0},
	{"NVRM: Xid (PCI:0000:0a): 31, pid=1", .xid = 0},
	{"NVRM: Xid (PCI:0000:0a:20): 31, pid=1", .xid = 0},
	{"NVRM: Xid (PCI:0000:1ff:00): 31, pid=1", .xid = 0},
	{"NVRM: Xid (PCI:0000:0a:00): x, pid=1", .xid = 0},
	{"NVRM: Xid (PCI:0000:0a:00) 31", .xid = 0},
	{"NVRM: Xid (PCI:", .xid = 0},
	{"NVRM: GPU at PCI:0000:0a:00", .xid = 0},
	{"", .xid = 0},
};

static void lines_of_the_kernel_log_name_the_process(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct xid_line line = {.pid = -1};
		const bool is_read = xid_line_parse(str_from(lines[i].line), &line);

		if (is_read != (lines[i].xid != 0))
			fail_msg("%s: read: %d", lines[i].line, is_read);
		if (!is_read)
			continue;
		assert_int_equal(line.pci.domain, lines[i].domain);
		assert_int_equal(line.pci.bus, lines[i].bus);
		assert_int_equal(line.pci.device, lines[i].device);
		assert_int_equal(line.xid, lines[i].xid);
		assert_int_equal(line.pid, lines[i].pid);
	}
}

static void places_on_the_bus_are_read_as_nvml_writes_them(void **state)
{
	struct xid_pci pci;

	assert_ok(xid_pci_parse(STR("00000002:0A:1F.0"), &pci));
	assert_int_equal(pci.domain, 2);
	assert_int_equal(pci.bus, 10);
	assert_int_equal(pci.device, 31);
	assert_true(xid_pci_parse(STR(""), &pci) < 0);
	assert_true(xid_pci_parse(STR("0:0"), &pci) < 0);
	assert_true(xid_pci_parse(STR("0::0.0"), &pci) < 0);
	assert_true(xid_pci_parse(STR("100000000:0:0.0"), &pci) < 0);
}

UNIT_MAIN(UNIT(each_xid_has_a_kind_and_a_short_text),
	UNIT(lines_of_the_kernel_log_name_the_process),
	UNIT(places_on_the_bus_are_read_as_nvml_writes_them))
