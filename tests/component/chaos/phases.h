/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phases of victim, and the system call that announces a phase.
 */
#ifndef TESTS_COMPONENT_CHAOS_PHASES_H
#define TESTS_COMPONENT_CHAOS_PHASES_H

#define PHASE_CALL 0x64697676 /* not an option of prctl, which returns EINVAL */
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
