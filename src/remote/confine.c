/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See confine.h. The filter lists refused calls instead of allowed ones, because the calls of a
 * driver differ from release to release. A refused call returns EPERM, and clone3 returns ENOSYS,
 * so that libc falls back to clone, whose flags a filter can see.
 */
#include "remote/confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "remote/sha256.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* ---- the secret ---- */

#define SECRET_CHARACTERS 32u

void confine_secret(void)
{
	static const char digits[] = "0123456789abcdef";
	char *secret = getenv("DIVVY_TENANT");
	uint8_t hash[SHA256_BYTES];

	if (!secret || strlen(secret) != SECRET_CHARACTERS)
		return;
	sha256(secret, SECRET_CHARACTERS, hash);
	/*
	 * Overwrites the secret in place, because /proc shows the memory of the initial
	 * environment.
	 */
	for (size_t i = 0; i < SECRET_CHARACTERS / 2; i++) {
		secret[2 * i] = digits[hash[i] >> 4];
		secret[2 * i + 1] = digits[hash[i] & 15];
	}
}

/* ---- device files ---- */

/* From linux/landlock.h, which older headers lack. */
#define FILE_READ_OR_WRITTEN (1ull << 1 | 1ull << 2)
#define RULE_PATH_BENEATH 1
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

struct ruleset {
	uint64_t handled;
};

struct beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

static int allow_at(int ruleset, int folder, const char *name)
{
	_cleanup_close_ int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	const struct beneath rule = {FILE_READ_OR_WRITTEN, fd};
	struct stat st;

	/* Skips files that are missing, and links, whose targets have a rule of their own. */
	if (fd < 0 || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode))
		return 0;
	return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno
											: 0;
}

/* Whether the name is the device file of a whole device that was not granted. */
static bool is_ungranted(const char *name, uint64_t minors)
{
	struct str number = str_from(name);
	uint64_t minor;

	return str_skip_prefix(&number, STR("nvidia")) &&
		parse_uint(number, 0, UINT32_MAX, &minor, NULL) >= 0 &&
		!(minor < 64 && minors >> minor & 1);
}

/*
 * Allows the entries of the folder: all except `but`, or with `but` NULL all except devices that
 * were not granted.
 */
static int allow_entries(int ruleset, int folder, const char *but, uint64_t minors)
{
	DIR *dir = folder < 0 ? NULL : fdopendir(folder);
	const struct dirent *e;
	int r = dir ? 0 : -errno;

	while (r == 0 && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
			(but ? strcmp(e->d_name, but) != 0 : !is_ungranted(e->d_name, minors)))
			r = allow_at(ruleset, dirfd(dir), e->d_name);
	if (dir)
		closedir(dir);
	else if (folder >= 0)
		close(folder);
	return r;
}

int confine_devices(const char *root, uint64_t minors)
{
	const struct ruleset attributes = {FILE_READ_OR_WRITTEN};
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	_cleanup_close_ int ruleset = (int)syscall(
		SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
	_cleanup_close_ int top = open(root, flags);
	int r;

	/* A kernel may have Landlock and not use it (EOPNOTSUPP). */
	if (ruleset < 0)
		return errno == EOPNOTSUPP ? -ENOSYS : -errno;
	if (top < 0)
		return -errno;
	r = allow_entries(ruleset, openat(top, ".", flags), "dev", 0);
	r = r < 0 ? r : allow_entries(ruleset, openat(top, "dev", flags), NULL, minors);
	if (r == 0 &&
		(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			syscall(SYS_landlock_restrict_self, ruleset, 0) < 0))
		r = -errno;
	return r;
}

/* ---- calls ---- */

static const uint16_t refused[] = {
	/* programs and processes */
	SYS_execve,
	SYS_execveat,
#ifdef SYS_fork
	SYS_fork,
	SYS_vfork,
#endif
	/* other processes */
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kcmp,
#ifdef SYS_pidfd_getfd
	SYS_pidfd_getfd,
#endif
#ifdef SYS_pidfd_send_signal
	SYS_pidfd_send_signal,
#endif
#ifdef SYS_process_madvise
	SYS_process_madvise,
#endif
	SYS_setpriority,
	SYS_rt_sigqueueinfo,
	SYS_tkill,
	/* file systems and namespaces */
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_unshare,
	SYS_setns,
	SYS_open_by_handle_at,
	SYS_name_to_handle_at,
	SYS_fanotify_init,
	SYS_quotactl,
	SYS_swapon,
	SYS_swapoff,
#ifdef SYS_open_tree
	SYS_open_tree,
	SYS_move_mount,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
#endif
#ifdef SYS_mount_setattr
	SYS_mount_setattr,
#endif
	/* the kernel */
	SYS_bpf,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_kexec_load,
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_reboot,
	SYS_acct,
	SYS_syslog,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_sethostname,
	SYS_setdomainname,
#ifdef SYS_iopl
	SYS_iopl,
	SYS_ioperm,
	SYS_modify_ldt,
#endif
#ifdef SYS_io_uring_setup
	/* io_uring makes other calls that bypass this filter. */
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
#endif
};

#define RULES_MAX (2 * ARRAY_SIZE(refused) + 64)

struct filter {
	struct sock_filter rule[RULES_MAX];
	unsigned short n;
};

#define AT(field) (uint32_t) offsetof(struct seccomp_data, field)
/* The low half of an argument; all supported machines are little-endian. */
#define ARGUMENT(i) (uint32_t)(offsetof(struct seccomp_data, args) + 8u * (i))
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

static void confine_add_code(struct filter *f, uint16_t code, uint32_t k)
{
	f->rule[f->n++] = (struct sock_filter)BPF_STMT(code, k);
}

static void confine_load_word(struct filter *f, uint32_t at)
{
	confine_add_code(f, BPF_LD | BPF_W | BPF_ABS, at);
}

/* The next `n` rules apply if the loaded value equals k. */
static void for_equal(struct filter *f, uint32_t k, uint8_t n)
{
	f->rule[f->n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, n);
}

static void confine_answer(struct filter *f, uint32_t what)
{
	confine_add_code(f, BPF_RET | BPF_K, what);
}

/* Allows the call only if the argument equals k. */
static void allow_only(struct filter *f, uint32_t call, unsigned int argument, uint32_t k)
{
	for_equal(f, call, 4);
	confine_load_word(f, ARGUMENT(argument));
	for_equal(f, k, 1);
	confine_answer(f, SECCOMP_RET_ALLOW);
	confine_answer(f, REFUSE);
}

static void confine_fill_filter(struct filter *f)
{
	confine_load_word(f, AT(arch));
	f->rule[f->n++] = (struct sock_filter)BPF_JUMP(
		BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	confine_answer(f, REFUSE);
	confine_load_word(f, AT(nr));
#ifdef X32_BIT
	f->rule[f->n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, X32_BIT, 0, 1);
	confine_answer(f, REFUSE);
#endif
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		for_equal(f, refused[i], 1);
		confine_answer(f, REFUSE);
	}
#ifdef SYS_clone3
	for_equal(f, SYS_clone3, 1);
	confine_answer(f, SECCOMP_RET_ERRNO | ENOSYS);
#endif
	/* Allows threads, but no processes. */
	for_equal(f, SYS_clone, 4);
	confine_load_word(f, ARGUMENT(0));
	f->rule[f->n++] = (struct sock_filter)BPF_JUMP(
		BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1);
	confine_answer(f, SECCOMP_RET_ALLOW);
	confine_answer(f, REFUSE);
	/* Unix sockets lead to the daemon, the driver's own services and a simulated device. */
	allow_only(f, SYS_socket, 0, AF_UNIX);
	/* Allows these calls for this process only. */
	allow_only(f, SYS_prlimit64, 0, 0);
	allow_only(f, SYS_kill, 0, (uint32_t)getpid());
	allow_only(f, SYS_tgkill, 0, (uint32_t)getpid());
#ifdef SYS_rt_tgsigqueueinfo
	allow_only(f, SYS_rt_tgsigqueueinfo, 0, (uint32_t)getpid());
#endif
	/* Forbids TIOCSTI, which types into a terminal. */
	for_equal(f, SYS_ioctl, 4);
	confine_load_word(f, ARGUMENT(1));
	for_equal(f, TIOCSTI, 1);
	confine_answer(f, REFUSE);
	confine_answer(f, SECCOMP_RET_ALLOW);
	confine_answer(f, SECCOMP_RET_ALLOW);
}

int confine_calls(void)
{
	struct filter filter = {.n = 0};
	struct sock_fprog program;

	confine_fill_filter(&filter);
	program = (struct sock_fprog){filter.n, filter.rule};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	/* TSYNC applies the filter to the threads that the driver has started, too. */
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
			0
		? 0
		: -EPERM;
}

int confine(void)
{
	confine_secret();
	return confine_calls();
}
