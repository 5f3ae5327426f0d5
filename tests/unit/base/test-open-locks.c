/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/open-locks.h"

static void open_locks_are_found_in_the_kernels_list(void **state)
{
	static const char text[] =
		"1: POSIX  ADVISORY  READ 11 00:20:7 3 3\n"
		"2: OFDLCK ADVISORY  READ -1 00:0f:77 4611686018427387903 4611686018427391998\n"
		"3: FLOCK  ADVISORY  WRITE 1 00:1b:11 0 EOF\n"
		"4: OFDLCK ADVISORY  WRITE -1 00:06:5 5 5\n"
		"4: -> OFDLCK ADVISORY  WRITE -1 00:06:5 9 9\n"
		"5: OFDLCK ADVISORY  READ -1 00:06:5 0 EOF\n"
		"6: OFDLCK ADVISORY  READ -1 <none>:0 77 99\n";
	_cleanup_close_ int fd = memfd_new("descriptor", 1);
	struct flock lock = {.l_type = F_RDLCK, .l_start = 4242424243, .l_len = 3};
	struct open_locks found;

	assert_ok(open_locks_parse(str_from(text), &found));
	assert_int_equal(found.n, 3);
	assert_true(open_locks_has(&found, 5));
	assert_true(open_locks_has(&found, 77));
	assert_true(open_locks_has(&found, UINT64_C(4611686018427387903)));
	assert_false(open_locks_has(&found, 3));
	assert_false(open_locks_has(&found, 0));
	open_locks_done(&found);
	assert_ok(fcntl(fd, F_OFD_SETLK, &lock));
	assert_ok(open_locks_read(&found));
	assert_true(open_locks_has(&found, 4242424243));
	open_locks_done(&found);
	fd = fd_close(fd);
	assert_ok(open_locks_read(&found));
	assert_false(open_locks_has(&found, 4242424243));
	open_locks_done(&found);
}

UNIT_MAIN(UNIT(open_locks_are_found_in_the_kernels_list))
