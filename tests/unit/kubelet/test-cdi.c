/* SPDX-License-Identifier: Apache-2.0 */
#include "kubelet/cdi.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "unit.h"

static const struct cdi_variable env[] = {{"DIVVY_SLOT", "3"}, {"EMPTY", ""}};
static const struct cdi_mount mounts[] = {
	{"/run/divvy/slots/3", "/run/divvy", false},
	{"/var/lib/divvy/preload", "/etc/ld.so.preload", true},
};
static const struct cdi_node nodes[] = {{"/dev/nvidia0", "/dev/nvidia0", "rw"}};
static const struct cdi_slot slot = {
	.slot = 3,
	.env = env,
	.mounts = mounts,
	.nodes = nodes,
	.n_env = ARRAY_SIZE(env),
	.n_mounts = ARRAY_SIZE(mounts),
	.n_nodes = ARRAY_SIZE(nodes),
};

/* ---- the documented schema, for the parts and the version that divvy writes ---- */

struct member {
	const char *name;
	char type; /* s text, a array, o object */
	bool is_required;
};

static bool is_of_type(const json_t *value, char type)
{
	return (type == 's' && json_is_string(value)) || (type == 'a' && json_is_array(value)) ||
		(type == 'o' && json_is_object(value));
}

/*
 * Checks that the object has the required members and no unlisted one, and that each has the right
 * type.
 */
static void check_members(json_t *object, const struct member *members, size_t n)
{
	const char *key;
	json_t *value;

	assert_true(json_is_object(object));
	for (size_t i = 0; i < n; i++)
		if (members[i].is_required)
			assert_non_null(json_object_get(object, members[i].name));
	json_object_foreach(object, key, value) {
		size_t i = 0;

		while (i < n && strcmp(members[i].name, key))
			i++;
		if (i == n || !is_of_type(value, members[i].type))
			fail_msg("member '%s' does not belong there", key);
	}
}

/*
 * Checks that the name begins and ends with a letter or digit, with only '-', '_', '.' and letters
 * or digits between; a device's name may also have ':'.
 */
static void check_name(const char *name, const char *between)
{
	size_t n = strlen(name);

	assert_true(n > 0);
	assert_true(isalnum(name[0]) && isalnum(name[n - 1]));
	for (size_t i = 0; i < n; i++)
		assert_true(isalnum(name[i]) || strchr(between, name[i]));
}

static void check_strings(json_t *array)
{
	json_t *value;
	size_t i;

	json_array_foreach(array, i, value)
		assert_true(json_is_string(value));
}

static void check_edits(json_t *edits)
{
	static const struct member of_edits[] = {{"env", 'a', false}, {"deviceNodes", 'a', false},
		{"mounts", 'a', false}, {"hooks", 'a', false}};
	static const struct member of_node[] = {{"path", 's', true}, {"hostPath", 's', false},
		{"type", 's', false}, {"permissions", 's', false}};
	static const struct member of_mount[] = {{"hostPath", 's', true},
		{"containerPath", 's', true}, {"type", 's', false}, {"options", 'a', false}};
	json_t *value;
	size_t i;

	check_members(edits, of_edits, ARRAY_SIZE(of_edits));
	assert_true(json_object_size(edits) > 0);
	json_array_foreach(json_object_get(edits, "env"), i, value)
		assert_true(strchr(json_string_value(value), '=') > json_string_value(value));
	json_array_foreach(json_object_get(edits, "deviceNodes"), i, value) {
		check_members(value, of_node, ARRAY_SIZE(of_node));
		assert_int_equal(json_string_value(json_object_get(value, "path"))[0], '/');
		assert_true(strchr("bcup", *json_string_value(json_object_get(value, "type"))));
		assert_int_equal(
			json_string_value(json_object_get(value, "permissions"))[strspn(
				json_string_value(json_object_get(value, "permissions")), "rwm")],
			0);
	}
	json_array_foreach(json_object_get(edits, "mounts"), i, value) {
		check_members(value, of_mount, ARRAY_SIZE(of_mount));
		check_strings(json_object_get(value, "options"));
		assert_int_equal(json_string_value(json_object_get(value, "hostPath"))[0], '/');
		assert_int_equal(
			json_string_value(json_object_get(value, "containerPath"))[0], '/');
	}
}

static void check_file(json_t *root)
{
	static const struct member of_root[] = {{"cdiVersion", 's', true}, {"kind", 's', true},
		{"devices", 'a', true}, {"containerEdits", 'o', false}};
	static const struct member of_device[] = {
		{"name", 's', true}, {"containerEdits", 'o', true}};
	char vendor[64], class[64];
	json_t *device;
	size_t i;

	check_members(root, of_root, ARRAY_SIZE(of_root));
	assert_string_equal(json_string_value(json_object_get(root, "cdiVersion")), "0.5.0");
	assert_int_equal(sscanf(json_string_value(json_object_get(root, "kind")), "%63[^/]/%63s",
				 vendor, class),
		2);
	check_name(vendor, "-_.");
	check_name(class, "-_");
	assert_true(json_array_size(json_object_get(root, "devices")) > 0);
	json_array_foreach(json_object_get(root, "devices"), i, device) {
		check_members(device, of_device, ARRAY_SIZE(of_device));
		check_name(json_string_value(json_object_get(device, "name")), "-_.:");
		check_edits(json_object_get(device, "containerEdits"));
	}
}

/* ---- tests ---- */

static void a_file_follows_the_schema(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CDI_MAX);
	struct cdi_slot one = {.slot = UINT32_MAX, .env = env, .n_env = 1};
	struct error err;
	json_t *root;

	assert_ok(cdi_format(&slot, &text, &err));
	root = json_loads(buf_text(&text), JSON_REJECT_DUPLICATES, NULL);
	check_file(root);
	json_decref(root);
	assert_contains(buf_text(&text), "\"name\": \"3\"");
	assert_contains(buf_text(&text), "\"kind\": \"divvy.gpu/slot\"");
	assert_contains(buf_text(&text), "\"DIVVY_SLOT=3\"");
	assert_contains(buf_text(&text), "\"EMPTY=\"");
	assert_int_equal(unit_count(buf_text(&text), "\"ro\""), 1);
	/* one for the mount, and one for the device node */
	assert_int_equal(unit_count(buf_text(&text), "\"rw\""), 2);

	buf_clear(&text);
	assert_ok(cdi_format(&one, &text, &err));
	root = json_loads(buf_text(&text), JSON_REJECT_DUPLICATES, NULL);
	check_file(root);
	json_decref(root);
}

static void a_name_has_kind_and_device(void **state)
{
	char name[CDI_NAME_SIZE];

	cdi_name(3, name);
	assert_string_equal(name, "divvy.gpu/slot=3");
	cdi_name(UINT32_MAX, name);
	assert_string_equal(name, "divvy.gpu/slot=4294967295");
}

static void refuse(struct cdi_slot s, int code, const char *part)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CDI_MAX);
	struct error err = {0};

	assert_int_equal(cdi_format(&s, &text, &err), -code);
	assert_contains(err.msg, part);
	assert_int_equal(text.n, 0);
}

static void edits_that_a_runtime_would_refuse_are_not_written(void **state)
{
	static const struct cdi_variable bad_env[] = {{"", "value"}, {"A=B", "value"},
		{"A\nB", "value"}, {"A", "b\nC=d"}, {"A", "b\rC"}, {"A", "\xff"}, {"\xff", "b"}};
	static const struct cdi_variable many[CDI_EDITS_MAX + 1];
	const struct cdi_mount relative = {"run/divvy", "/run/divvy", false};
	const struct cdi_mount inside = {"/run/divvy", "", false};
	const struct cdi_node nowhere = {NULL, "/dev/a", "rw"};
	const struct cdi_node wrong = {"/dev/a", "/dev/a", "rx"};
	const struct cdi_node none = {"/dev/a", "/dev/a", ""};

	refuse((struct cdi_slot){.slot = 7}, EINVAL, "slot 7");
	for (size_t i = 0; i < ARRAY_SIZE(bad_env); i++)
		refuse((struct cdi_slot){.slot = 7, .env = &bad_env[i], .n_env = 1}, EINVAL,
			"slot 7");
	refuse((struct cdi_slot){.mounts = &relative, .n_mounts = 1}, EINVAL, "'run/divvy'");
	refuse((struct cdi_slot){.mounts = &inside, .n_mounts = 1}, EINVAL, "absolute");
	refuse((struct cdi_slot){.nodes = &nowhere, .n_nodes = 1}, EINVAL, "absolute");
	refuse((struct cdi_slot){.nodes = &wrong, .n_nodes = 1}, EINVAL, "'rx'");
	refuse((struct cdi_slot){.nodes = &none, .n_nodes = 1}, EINVAL, "some of r, w, m");
	refuse((struct cdi_slot){.env = many, .n_env = ARRAY_SIZE(many)}, E2BIG, "256");
}

static void a_file_that_is_too_long_is_refused(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(100);
	struct error err;

	assert_int_equal(cdi_format(&slot, &text, &err), -EMSGSIZE);
	assert_contains(err.msg, "100 bytes");
}

static int count_files(const char *folder)
{
	struct dirent *entry;
	DIR *dir = opendir(folder);
	int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void files_are_written_and_removed(void **state)
{
	char top[] = "/tmp/divvy-cdi-XXXXXX", folder[64], path[128];
	_cleanup_buf_ struct buf first = BUF_INIT(CDI_MAX), second = BUF_INIT(CDI_MAX);
	struct cdi_slot other = slot;
	struct stat st;
	struct error err;

	assert_non_null(mkdtemp(top));
	snprintf(folder, sizeof(folder), "%s/run/cdi", top);
	assert_ok(cdi_write(folder, &slot, &err));
	snprintf(path, sizeof(path), "%s/divvy.gpu-slot_3.json", folder);
	assert_ok(file_read(path, &first, &err));
	assert_ok(stat(path, &st));
	assert_int_equal(st.st_mode & 07777, 0644);

	other.n_mounts = 1;
	assert_ok(cdi_write(folder, &other, &err));
	assert_ok(file_read(path, &second, &err));
	assert_false(str_eq(buf_str(&first), buf_str(&second)));
	other.slot = 4;
	assert_ok(cdi_write(folder, &other, &err));
	assert_int_equal(count_files(folder), 2);

	/* A refused write leaves the file unchanged. */
	assert_int_equal(cdi_write(folder, &(struct cdi_slot){.slot = 3}, &err), -EINVAL);
	assert_int_equal(count_files(folder), 2);

	assert_ok(cdi_remove(folder, 3, &err));
	assert_ok(cdi_remove(folder, 3, &err));
	assert_ok(cdi_remove(folder, 4, &err));
	assert_int_equal(count_files(folder), 0);
	assert_ok(rmdir(folder));
	assert_int_equal(cdi_write("/dev/null/cdi", &slot, &err), -ENOTDIR);
	snprintf(folder, sizeof(folder), "%s/run", top);
	assert_ok(rmdir(folder));
	assert_ok(rmdir(top));
}

UNIT_MAIN(UNIT(a_file_follows_the_schema), UNIT(a_name_has_kind_and_device),
	UNIT(edits_that_a_runtime_would_refuse_are_not_written),
	UNIT(a_file_that_is_too_long_is_refused), UNIT(files_are_written_and_removed))
