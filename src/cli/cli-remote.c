/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file puts a helper between the program and the device: the local server, or a link to
 * another machine. The helper starts by two forks, because this process becomes the user's program,
 * which must find no unknown child. The helper answers through a pipe: "ok", or a line with the
 * reason of its failure. set_program() then removes the tenant's secret and the driver's variables
 * from the environment. No error message shows the key of an invitation, and find_invitation()
 * erases the key from the command line.
 */
#include "cli/cli-remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "base/install-path.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "cli/cli-path.h"

#define WAITING 64 /* processes of the program that may wait for a connection at once */
#define KEY_DIGITS 64u
#define DEVICE_MAX 15u
#define DEVICE_TEXT 16 /* the number as the user wrote it, such as 007 */
#define HEX "0123456789abcdef"
_Static_assert(ADDRESS_TEXT + KEY_DIGITS + 2 <= REMOTE_INVITATION, "HOST:PORT/KEY");

/* ---- the place and the invitation ---- */

bool remote_is_local(const char *place)
{
	return strcmp(place, "local") == 0;
}

/*
 * Returns whether the text is HOST:PORT/KEY. *ret_place receives HOST:PORT, unless ret_place is
 * NULL.
 */
static bool is_invitation(const char *text, struct address *ret_place)
{
	const char *key = strrchr(text, '/');
	struct address place;

	if (!key || strlen(text) >= REMOTE_INVITATION ||
		address_parse((struct str){text, (size_t)(key - text)}, 0, &place, NULL) < 0 ||
		strlen(key + 1) != KEY_DIGITS || strspn(key + 1, HEX) != KEY_DIGITS)
		return false;
	if (ret_place)
		*ret_place = place;
	return true;
}

/* Explains why a text with a slash is no invitation. The message must not show the key. */
static int fail_invitation(const char *text, struct error *why)
{
	const char *key = strrchr(text, '/') + 1;
	const struct str at = {text, (size_t)(key - 1 - text)};
	struct address there;
	int r = address_parse(at, 0, &there, why);

	if (r < 0)
		return r;
	return fail(why, EINVAL,
		"'%.*s': the key after it has %zu characters; expected 64 of 0-9a-f, as divvy "
		"serve prints",
		STR_ARG(at), strlen(key));
}

/* Splits HOST[:DEVICE]. */
static int split_place(
	const char *place, struct str *ret_host, struct str *ret_device, struct error *err)
{
	struct str rest, host;
	struct error why;
	uint64_t number;
	int r;

	r = strchr(place, '/') ? fail_invitation(place, &why)
			       : address_parse_host(str_from(place), &host, &rest, &why);
	r = r < 0 ? r : address_check_scope(host, &why);
	if (r < 0)
		return fail(err, EINVAL,
			strchr(place, '/')
				? "--remote %s; other places are 'local', or HOST[:DEVICE] "
				  "with --invitation"
				: "--remote %s; expected 'local', HOST[:DEVICE] with "
				  "--invitation, or an invitation of divvy serve, "
				  "HOST:PORT/KEY",
			why.msg);
	if (str_skip_prefix(&rest, STR(":")) && parse_uint(rest, 0, DEVICE_MAX, &number, NULL) < 0)
		return fail(err, EINVAL,
			"--remote '%s': '%.*s' is not a device; expected 0 to %u (the "
			"invitation has the port)",
			place, STR_ARG(rest), DEVICE_MAX);
	if (str_is(host, "local") && rest.n)
		return fail(err, EINVAL,
			"--remote '%s': on this machine, choose the device with --device", place);
	*ret_host = host;
	*ret_device = rest;
	return 0;
}

int remote_check(const char *place, const char *file, struct error *err)
{
	struct str host, device;

	if (!place)
		return file
			? fail(err, EINVAL, "--invitation works only together with --remote HOST")
			: 0;
	if (remote_is_local(place) || is_invitation(place, NULL))
		return file ? fail(err, EINVAL,
				      "--invitation does not work with --remote %s; leave it out",
				      remote_is_local(place) ? place : "HOST:PORT/KEY")
			    : 0;
	return split_place(place, &host, &device, err);
}

/* Reads the first line of a file that no other user may read. */
static int remote_read_file(const char *path, char *ret_text, size_t size, struct error *err)
{
	_cleanup_fclose_ FILE *f = strcmp(path, "-") ? fopen(path, "re")
						     : fdopen(dup(STDIN_FILENO), "r");
	struct stat st;

	if (!f && !strcmp(path, "-"))
		return fail(err, EBADF, "--invitation -: stdin is closed");
	if (!f || fstat(fileno(f), &st) < 0)
		return fail_errno(err, errno, "--invitation '%s'", path);
	if (S_ISREG(st.st_mode) && st.st_mode & 077)
		return fail(err, EPERM,
			"--invitation '%s': other users can read the file (mode %04o); chmod "
			"600 it, or ask for a new invitation",
			path, st.st_mode & 07777u);
	if (S_ISDIR(st.st_mode))
		return fail(err, EISDIR, "--invitation '%s' is a folder; expected a file", path);
	/*
	 * The lines after the first belong to the program's stdin, so the stream must not buffer.
	 */
	setvbuf(f, NULL, _IONBF, 0);
	if (!fgets(ret_text, (int)size, f))
		return fail(err, EINVAL, "--invitation '%s' is empty; expected an invitation in it",
			path);
	/* Editors and mailers of other systems leave \r and spaces at the end. */
	ret_text[strcspn(ret_text, "\r\n")] = '\0';
	for (size_t n = strlen(ret_text); n && ret_text[n - 1] == ' '; n--)
		ret_text[n - 1] = '\0';
	if (!ret_text[0])
		return fail(err, EINVAL,
			"--invitation '%s' has an empty first line; expected an invitation there",
			path);
	return 0;
}

/* Takes the invitation from --remote itself, or else from the file or the environment. */
static int find_invitation(const char *place, const char *file,
	char ret_text[static REMOTE_INVITATION], char ret_device[static DEVICE_TEXT],
	struct error *err)
{
	const char *given = getenv(REMOTE_ENV);
	char text[REMOTE_INVITATION] = "", host[ADDRESS_HOST];
	struct str name, device;
	struct address there;
	int r;

	if (is_invitation(place, NULL)) {
		snprintf(ret_text, REMOTE_INVITATION, "%s", place);
		/* Every user can read this process's command line, so the key is erased there. */
		explicit_bzero((char *)(uintptr_t)strrchr(place, '/') + 1, KEY_DIGITS);
		return 0;
	}
	r = split_place(place, &name, &device, err);
	if (r >= 0 && file)
		r = remote_read_file(file, text, sizeof(text), err);
	else if (r >= 0 && given)
		snprintf(text, sizeof(text), "%s", given);
	if (r < 0)
		return r;
	if (!text[0])
		return fail(err, EINVAL,
			"--remote %s: no invitation; pass the one of 'divvy serve --invite' "
			"there by --invitation FILE or " REMOTE_ENV,
			place);
	if (!is_invitation(text, &there))
		return fail(err, EINVAL,
			"%s has no invitation; expected HOST:PORT/KEY, as divvy serve prints",
			file ? file : REMOTE_ENV);
	if (str_copy(host, sizeof(host), name) < 0 ||
		address_format(host, there.port, ret_text, ADDRESS_TEXT) < 0)
		return fail(err, ENAMETOOLONG, "--remote '%s': the host name is too long", place);
	memcpy(ret_text + strlen(ret_text), strrchr(text, '/'), KEY_DIGITS + 2);
	explicit_bzero(text, sizeof(text));
	if (str_copy(ret_device, DEVICE_TEXT, device) < 0)
		return fail(
			err, EINVAL, "--remote '%s': the device number has too many digits", place);
	return 0;
}

/* ---- helpers ---- */

static int name_socket(const char *folder, struct sockaddr_un *ret_address, struct error *err)
{
	char *path = ret_address->sun_path;
	const size_t size = sizeof(ret_address->sun_path);

	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (snprintf(path, size, "%s/remote-%d.sock", folder, (int)getpid()) >= (int)size)
		return fail(err, ENAMETOOLONG,
			"runtime folder '%s': the path is too long for a socket; set "
			"DIVVY_RUNTIME_DIR to a shorter one",
			folder);
	return 0;
}

static int remote_listen_for_program(struct sockaddr_un *ret_address, struct error *err)
{
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct sockaddr_un *a = ret_address;
	char folder[PLACES_PATH];
	mode_t before;
	int r = cli_path_runtime(folder, sizeof(folder), err);

	r = r < 0 ? r : name_socket(folder, a, err);
	/* The folder gets the same mode that the daemon would give it. */
	r = r < 0 ? r : folder_make(folder, geteuid() ? 0700 : 0755, err);
	if (r < 0)
		return r;
	unlink(a->sun_path);
	before = umask(0077);
	r = sock < 0 || bind(sock, (struct sockaddr *)a, sizeof(*a)) < 0 ||
			listen(sock, WAITING) < 0
		? -errno
		: 0;
	umask(before);
	if (r < 0)
		return fail_errno(err, -r, "listen on '%s'", a->sun_path);
	return TAKE_FD(sock);
}

#define HELPER_SOCK 3

struct helper {
	const char *name;
	const char *verb;   /* NULL: the helper takes no verb */
	const char *device; /* argument of the verb; NULL: any device */
};

/*
 * Forks twice, so the helper is no child of the program, which must not find an unknown child. The
 * caller reads the helper's stdout; stdin and stderr are /dev/null.
 */
static void become_helper(
	const struct helper *h, const char *path, int sock, pid_t program, int out)
{
	char listener[16], follow[16];
	const int null = open("/dev/null", O_RDWR);

	if (setsid() < 0 || fork() != 0)
		_exit(0);
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	/*
	 * All other descriptors belong to the program; the helper must not hold the program's
	 * locks.
	 */
	dup2(sock, HELPER_SOCK);
	fd_close_from(HELPER_SOCK + 1);
	snprintf(listener, sizeof(listener), "%d", HELPER_SOCK);
	snprintf(follow, sizeof(follow), "%d", (int)program);
	unsetenv("LD_PRELOAD");
	if (h->verb)
		execl(path, path, h->verb, listener, follow, h->device, NULL);
	else
		execl(path, path, listener, follow, NULL);
	_exit(1);
}

static int remote_start_helper(
	const struct helper *h, struct sockaddr_un *ret_address, int *ret_out, struct error *err)
{
	_cleanup_close_ int sock = -1;
	const pid_t program = getpid();
	char path[PLACES_PATH];
	int out[2], r;
	pid_t pid;

	r = install_path_find_program(h->name, path, sizeof(path), err);
	r = r < 0 ? r : remote_listen_for_program(ret_address, err);
	if (r < 0)
		return r;
	sock = r;
	if (pipe2(out, O_CLOEXEC) < 0) {
		r = fail_errno(err, errno, "start '%s'", path);
		unlink(ret_address->sun_path);
		return r;
	}
	pid = fork();
	if (pid == 0)
		become_helper(h, path, sock, program, out[1]);
	close(out[1]);
	if (pid < 0) {
		r = fail_errno(err, errno, "start '%s'", path);
		unlink(ret_address->sun_path);
		close(out[0]);
		return r;
	}
	waitpid(pid, NULL, 0);
	*ret_out = out[0];
	return 0;
}

/*
 * Returns whether the helper has reported "ok". If not, ret_said receives the line with the reason.
 * The line is empty if the helper ended without a report. The function then removes the helper's
 * socket.
 */
static bool has_begun(int out, const struct sockaddr_un *address, char *ret_said, size_t size)
{
	size_t n = 0;

	for (ssize_t got; n < size - 1; n += (size_t)got) {
		got = read(out, ret_said + n, size - 1 - n);
		if (got <= 0)
			break;
	}
	ret_said[n] = '\0';
	ret_said[strcspn(ret_said, "\n")] = '\0';
	if (strcmp(ret_said, "ok") == 0)
		return true;
	unlink(address->sun_path);
	return false;
}

/* Sets the variables that name the server's socket and the library that replaces the driver. */
static int set_program(const struct sockaddr_un *address, struct error *err)
{
	static const char *const kept[] = {"DIVVY_TENANT", "DIVVY_SOCKET", "DIVVY_SIM",
		"DIVVY_DRIVER", "DIVVY_ABSENT", "DIVVY_REMOTE_HOOKS", REMOTE_ENV};
	_cleanup_buf_ struct buf preload = BUF_INIT(PLACES_PRELOAD),
				 folders = BUF_INIT(PLACES_PRELOAD);
	char cuda[PLACES_PATH], nvml[PLACES_PATH];
	struct cli_path_runtimes runtimes;
	bool has_folders;
	int r = cli_path_hook("libdivvy-remote.so", cuda, sizeof(cuda), err);

	r = r < 0 ? r : cli_path_hook("libdivvy-remote-nvml.so", nvml, sizeof(nvml), err);
	r = r < 0 ? r : cli_path_check_preload(cuda, err);
	r = r < 0 ? r : cli_path_check_preload(nvml, err);
	cli_path_runtimes(&runtimes);
	r = r < 0 ? r : cli_path_check_runtimes(&runtimes, err);
	if (r < 0)
		return r;
	cli_path_preload(cuda, nvml, &runtimes, &preload);
	has_folders = cli_path_library_path(cuda, &folders);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		unsetenv(kept[i]);
	if (buf_error(&preload) < 0 || setenv("DIVVY_REMOTE", address->sun_path, 1) < 0 ||
		setenv("LD_PRELOAD", buf_text(&preload), 1) < 0 || buf_error(&folders) < 0 ||
		(has_folders && setenv("LD_LIBRARY_PATH", buf_text(&folders), 1) < 0))
		return fail(err, E2BIG, "the environment is too large");
	return 0;
}

int remote_pretend(struct error *err)
{
	struct sockaddr_un address;
	char folder[PLACES_PATH];
	int r = cli_path_runtime(folder, sizeof(folder), err);

	r = r < 0 ? r : name_socket(folder, &address, err);
	return r < 0 ? r : set_program(&address, err);
}

int remote_begin(const char *hooks, struct error *err)
{
	static const struct helper server = {.name = "divvy-remote-server"};
	_cleanup_close_ int out = -1;
	struct sockaddr_un address;
	char said[16];
	int r;

	if (setenv("DIVVY_REMOTE_HOOKS", hooks, 1) < 0)
		return fail(err, E2BIG, "the environment is too large");
	r = remote_start_helper(&server, &address, &out, err);
	if (r < 0)
		return r;
	if (has_begun(out, &address, said, sizeof(said)))
		return set_program(&address, err);
	return fail(err, ECHILD,
		"--remote local: divvy-remote-server did not start; check this shell's limits "
		"(ulimit -a)");
}

int remote_join(const char *place, const char *file, struct error *err)
{
	char invitation[REMOTE_INVITATION], said[128], device[DEVICE_TEXT] = "";
	struct helper link = {.name = "divvy-remote-link", .verb = "join"};
	_cleanup_close_ int out = -1;
	struct sockaddr_un address;
	int r = find_invitation(place, file, invitation, device, err);

	if (r < 0)
		return r;
	if (device[0] && setenv("CUDA_VISIBLE_DEVICES", device, 1) < 0)
		return fail(err, E2BIG, "the environment is too large");
	r = setenv(REMOTE_ENV, invitation, 1) < 0 ? fail(err, E2BIG, "the environment is too large")
						  : 0;
	/* The program's environment must not contain the key. */
	*strrchr(invitation, '/') = '\0';
	link.device = device[0] ? device : NULL;
	r = r < 0 ? r : remote_start_helper(&link, &address, &out, err);
	if (r < 0)
		return r;
	if (has_begun(out, &address, said, sizeof(said)))
		return set_program(&address, err);
	return fail(
		err, EACCES, "--remote %s: %s", invitation, said[0] ? said : "the link has exited");
}
