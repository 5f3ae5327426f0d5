/* SPDX-License-Identifier: Apache-2.0 */
/* What victim goes through, and the system call by which it says so. */
#ifndef TESTS_COMPONENT_CHAOS_PHASES_H
#define TESTS_COMPONENT_CHAOS_PHASES_H

#define PHASE_CALL 0x64697676 /* no option of prctl: EINVAL */
#define PHASES(X) \
	X(register) \
	X(context) \
	X(reserve) \
	X(small) \
	X(free) \
	X(launch) \
	X(synchronise) \
	X(destroy)

#endif
