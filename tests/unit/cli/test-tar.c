/* SPDX-License-Identifier: Apache-2.0 */
/* Archives, and the values that a bundle leaves out. */
#include "../unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bundle.h"
#include "cli/tar.h"
#include "cmdline/json-member.h"

/* tar(1) lists the archive and extracts a file. */
static void tar_reads_the_archive(void **state)
{
	_cleanup_buf_ struct buf tar = BUF_INIT(1 << 20);
	char path[] = "/tmp/divvy-tar-XXXXXX", command[200], line[100] = "";
	const int fd = mkstemp(path);
	struct error err;
	FILE *f;

	assert_true(fd >= 0);
	assert_ok(tar_add(&tar, "a/one.txt", STR("first\n"), 1700000000, &err));
	assert_ok(tar_add(&tar, "empty", STR(""), 1700000000, &err));
	assert_ok(tar_end(&tar));
	assert_int_equal(tar.n % 512, 0);
	assert_int_equal(write(fd, tar.p, tar.n), tar.n);
	close(fd);
	snprintf(command, sizeof(command), "tar -xOf %s a/one.txt && tar -tf %s", path, path);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "first\n");
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "a/one.txt\n");
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "empty\n");
	assert_int_equal(pclose(f), 0);
	unlink(path);
}

static void names_have_limits(void **state)
{
	_cleanup_buf_ struct buf tar = BUF_INIT(4096);
	struct error err;
	char name[200];

	memset(name, 'x', sizeof(name));
	name[TAR_NAME_MAX] = '\0';
	assert_int_equal(tar_add(&tar, name, STR(""), 0, &err), -ENAMETOOLONG);
	assert_contains(err.msg, "fewer than 100");
	name[TAR_NAME_MAX - 1] = '\0';
	assert_ok(tar_add(&tar, name, STR(""), 0, &err));
	assert_int_equal(tar_add(&tar, "/etc/passwd", STR(""), 0, &err), -EINVAL);
	assert_int_equal(tar_add(&tar, "", STR(""), 0, &err), -EINVAL);
	assert_int_equal(tar.n, 512);
}

static void a_file_that_does_not_fit_is_left_out(void **state)
{
	_cleanup_buf_ struct buf tar = BUF_INIT(4096);
	char data[2560 + 1] = "";
	struct error err;

	assert_int_equal(
		tar_add(&tar, "more", (struct str){data, sizeof(data)}, 0, &err), -EMSGSIZE);
	assert_contains(err.msg, "'more' makes the archive larger than 4096 bytes");
	assert_ok(tar_add(&tar, "most", (struct str){data, 2560}, 0, &err));
	assert_int_equal(tar_add(&tar, "empty", STR(""), 0, &err), -EMSGSIZE);
	assert_ok(tar_end(&tar));
	assert_int_equal(tar.n, 512 + 2560 + 1024);
}

static void secrets_are_left_out(void **state)
{
	json_t *value = json_loads(
		"{\"name\": \"n\", \"Token\": \"t\", \"list\": [{\"tenantSecret\":"
		" {\"a\": 1}, \"is_secret\": true}], \"caBundle\": \"x\"}",
		0, NULL);
	const json_t *one = json_array_get(json_object_get(value, "list"), 0);

	bundle_redact(value);
	assert_string_equal(json_text_or_empty(value, "name"), "n");
	assert_string_equal(json_text_or_empty(value, "Token"), "(left out)");
	assert_string_equal(json_text_or_empty(value, "caBundle"), "(left out)");
	assert_string_equal(json_text_or_empty(one, "tenantSecret"), "(left out)");
	assert_true(json_bool_or_false(one, "is_secret"));
	json_decref(value);
}

static void pods_keep_only_divvys_values(void **state)
{
	json_t *pod = json_loads(
		"{\"metadata\": {\"annotations\": {\"divvy.gpu/request\": \"0.5\", \"other\": "
		"\"x\"}},"
		" \"spec\": {\"containers\": [{\"name\": \"c\", \"env\": [{\"name\": \"KEY\"}],"
		" \"args\": [\"--password=1\"]}], \"initContainers\": [{\"command\": [\"a\"]}]}}",
		0, NULL);
	char *text;

	bundle_redact_pod(pod);
	text = json_dumps(pod, JSON_SORT_KEYS);
	assert_contains(text, "\"divvy.gpu/request\": \"0.5\"");
	assert_contains(text, "\"name\": \"c\"");
	assert_null(strstr(text, "KEY"));
	assert_null(strstr(text, "password"));
	assert_null(strstr(text, "[\"a\"]"));
	assert_contains(text, "\"other\": \"(left out)\"");
	free(text);
	json_decref(pod);
}

UNIT_MAIN(UNIT(tar_reads_the_archive), UNIT(names_have_limits),
	UNIT(a_file_that_does_not_fit_is_left_out), UNIT(secrets_are_left_out),
	UNIT(pods_keep_only_divvys_values))
