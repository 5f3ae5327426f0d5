/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow name service, for LD_PRELOAD: each look-up of a user or group takes DIVVY_TEST_NAMES_MS
 * milliseconds. User DIVVY_TEST_NAMES_UID has the name "far-away" and the group
 * DIVVY_TEST_NAMES_GID; the machine's own name service answers for other users.
 */
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define NAME "far-away"

static unsigned long number(const char *variable, unsigned long otherwise)
{
	const char *text = getenv(variable);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

static void be_slow(void)
{
	const unsigned long ms = number("DIVVY_TEST_NAMES_MS", 0);
	struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		continue;
}

static void fill(struct passwd *pw, char *name, uid_t uid)
{
	memcpy(name, NAME, sizeof(NAME));
	*pw = (struct passwd){.pw_name = name,
		.pw_passwd = name,
		.pw_gecos = name,
		.pw_dir = name,
		.pw_shell = name,
		.pw_uid = uid,
		.pw_gid = (gid_t)number("DIVVY_TEST_NAMES_GID", uid)};
}

EXPORT struct passwd *getpwuid(uid_t uid)
{
	static struct passwd pw;
	static char name[sizeof(NAME)];
	struct passwd *(*real)(uid_t) = (struct passwd * (*)(uid_t)) dlsym(RTLD_NEXT, "getpwuid");

	be_slow();
	if (uid != number("DIVVY_TEST_NAMES_UID", (uid_t)-1))
		return real(uid);
	fill(&pw, name, uid);
	return &pw;
}

EXPORT int getpwuid_r(uid_t uid, struct passwd *pw, char *text, size_t size, struct passwd **ret)
{
	int (*real)(uid_t, struct passwd *, char *, size_t, struct passwd **) = (int (*)(uid_t,
		struct passwd *, char *, size_t, struct passwd **))dlsym(RTLD_NEXT, "getpwuid_r");

	be_slow();
	if (uid != number("DIVVY_TEST_NAMES_UID", (uid_t)-1))
		return real(uid, pw, text, size, ret);
	if (size < sizeof(NAME))
		return ERANGE;
	fill(pw, text, uid);
	*ret = pw;
	return 0;
}

EXPORT int getgrouplist(const char *user, gid_t gid, gid_t *groups, int *n)
{
	int (*real)(const char *, gid_t, gid_t *, int *) = (int (*)(
		const char *, gid_t, gid_t *, int *))dlsym(RTLD_NEXT, "getgrouplist");

	be_slow();
	if (strcmp(user, NAME) != 0)
		return real(user, gid, groups, n);
	if (*n < 2)
		return -1;
	groups[0] = gid;
	groups[1] = (gid_t)number("DIVVY_TEST_NAMES_GID", gid);
	return *n = 2;
}
