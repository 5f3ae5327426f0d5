/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads kubeconfig files, or a pod's service account. Several files count as one: the first entry
 * of a name counts, and the first current-context. Relative paths are relative to their file.
 * Secrets are overwritten before they are freed. Any thread.
 */
#include "kube/kube-config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/fd.h"
#include "base/parse.h"
#include "fields/yaml.h"
#include "kube/kube-json.h"

/* A parsed file. */
struct source_file {
	const char *name;
	json_t *json;
};

/* One entry of clusters, contexts or users. */
struct entry {
	const char *file;
	const char *list, *name;
	const json_t *fields;
};

struct reader {
	struct source_file files[KUBE_CONFIG_FILES_MAX];
	size_t n_files;
	struct kube_config *config;
	bool is_insecure_allowed;
};

static int fail_field(
	struct error *err, int code, const struct entry *e, const char *field, const char *what)
{
	return fail(err, code, "%s: %s[%s].%s: %s", e->file, e->list, e->name, field, what);
}

/* Copies a text; *ret_text keeps its value if the field is missing or empty. */
static int kube_config_read_text(
	const struct entry *e, const char *field, char **ret_text, struct error *err)
{
	const json_t *value = json_object_get(e->fields, field);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
		return fail_field(err, EINVAL, e, field, "expected text");
	if (!json_string_length(value))
		return 0;
	free(*ret_text);
	*ret_text = str_dup(str_from(json_string_value(value)));
	return *ret_text ? 0 : fail(err, ENOMEM, "out of memory for a kubeconfig");
}

static int read_flag(const struct entry *e, const char *field, bool *ret_flag, struct error *err)
{
	const json_t *value = json_object_get(e->fields, field);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_boolean(value))
		return fail_field(err, EINVAL, e, field, "expected true or false");
	*ret_flag = json_is_true(value);
	return 0;
}

static char *path_beside(const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');
	_cleanup_buf_ struct buf b = BUF_INIT(1u << 16);

	if (path[0] != '/' && slash)
		buf_add(&b, (struct str){file, (size_t)(slash - file) + 1});
	buf_add_text(&b, path);
	return buf_take(&b);
}

static int read_path(const struct entry *e, const char *field, char **ret_path, struct error *err)
{
	_cleanup_free_ char *path = NULL;
	int r = kube_config_read_text(e, field, &path, err);

	if (r < 0 || !path)
		return r;
	*ret_path = path_beside(e->file, path);
	return *ret_path ? 0 : fail(err, ENOMEM, "out of memory for a kubeconfig");
}

/* Reads PEM from FIELD-data in base64, or from the file at FIELD. */
static int read_pem(const struct entry *e, const char *field, char **ret_pem, struct error *err)
{
	_cleanup_free_ char *data = NULL, *path = NULL;
	_cleanup_buf_ struct buf pem = BUF_INIT(KUBE_CONFIG_FILE_MAX);
	char data_field[64];
	int r;

	snprintf(data_field, sizeof(data_field), "%s-data", field);
	r = kube_config_read_text(e, data_field, &data, err);
	if (r == 0)
		r = read_path(e, field, &path, err);
	if (r < 0 || (!data && !path))
		return r;
	if (data)
		r = base64_decode(str_from(data), &pem);
	if (r < 0)
		return fail_field(err, EINVAL, e, data_field, "expected base64");
	if (!data)
		r = file_read(path, &pem, err);
	if (r < 0)
		return fail_within(err, r, "%s: %s[%s].%s", e->file, e->list, e->name, field);
	if (!strstr(buf_text(&pem), "-----BEGIN ") || strlen(buf_text(&pem)) != pem.n)
		return fail_field(
			err, EINVAL, e, data ? data_field : field, "expected PEM (-----BEGIN ...)");
	*ret_pem = buf_take(&pem);
	return 0;
}

/* Finds an entry by name: `clusters` has entries {name, cluster: {...}}, and so on. */
static int kube_config_find_entry(const struct reader *reader, const char *list, const char *name,
	struct entry *ret_entry, struct error *err)
{
	char member[16];

	snprintf(member, sizeof(member), "%.*s", (int)strlen(list) - 1, list);
	for (size_t i = 0; i < reader->n_files; i++) {
		const json_t *entry = kube_json_find(
			json_object_get(reader->files[i].json, list), "name", name);

		if (!entry)
			continue;
		*ret_entry = (struct entry){reader->files[i].name, list,
			kube_json_text(entry, "name"), json_object_get(entry, member)};
		if (!json_is_object(ret_entry->fields))
			return fail_field(err, EINVAL, ret_entry, member, "expected an object");
		return 0;
	}
	return fail(err, ENOENT, "%s: no '%s' in %s", reader->files[0].name, name, list);
}

static int check_server(struct reader *reader, const struct entry *e, struct error *err)
{
	struct kube_config *config = reader->config;
	struct str url = str_from(config->server);

	if (!url.n)
		return fail_field(err, EINVAL, e, "server", "missing: https://HOST:PORT");
	if (!str_skip_prefix(&url, STR("https://"))) {
		if (!str_skip_prefix(&url, STR("http://")))
			return fail_field(err, EINVAL, e, "server", "must begin with https://");
		if (!reader->is_insecure_allowed)
			return fail_field(
				err, EPERM, e, "server", "http:// is not encrypted; use https://");
	}
	if (!url.n || str_find(url, '@') < url.n || str_find(url, '?') < url.n ||
		str_find(url, '#') < url.n || str_find(url, ' ') < url.n)
		return fail_field(err, EINVAL, e, "server", "must be https://HOST:PORT");
	for (size_t n = strlen(config->server); config->server[n - 1] == '/'; n--)
		config->server[n - 1] = '\0';
	return 0;
}

static int read_cluster(struct reader *reader, const struct entry *e, struct error *err)
{
	struct kube_config *config = reader->config;
	int r = kube_config_read_text(e, "server", &config->server, err);

	if (r == 0)
		r = check_server(reader, e, err);
	if (r == 0)
		r = kube_config_read_text(e, "tls-server-name", &config->tls_server_name, err);
	if (r == 0)
		r = kube_config_read_text(e, "proxy-url", &config->proxy_url, err);
	if (r == 0)
		r = read_pem(e, "certificate-authority", &config->ca_pem, err);
	if (r == 0)
		r = read_flag(e, "insecure-skip-tls-verify", &config->is_insecure, err);
	if (r == 0 && config->is_insecure && !reader->is_insecure_allowed)
		return fail_field(err, EPERM, e, "insecure-skip-tls-verify",
			"the server would not be verified; use certificate-authority instead");
	return r;
}

/* A list of texts, or of {name, value} as NAME=value; ended by NULL. */
static int kube_config_read_list(const struct entry *e, const char *field, const char *first,
	char ***ret_list, struct error *err)
{
	const json_t *values = json_object_get(e->fields, field);
	const size_t n = json_array_size(values), from = first ? 1 : 0;
	char **list;

	if (values && !json_is_null(values) && !json_is_array(values))
		return fail_field(err, EINVAL, e, field, "expected a list");
	list = calloc(n + from + 1, sizeof(*list));
	*ret_list = list;
	if (!list || (first && !(list[0] = str_dup(str_from(first)))))
		return fail(err, ENOMEM, "out of memory for a kubeconfig");
	for (size_t i = 0; i < n; i++) {
		const json_t *value = json_array_get(values, i);
		_cleanup_buf_ struct buf b = BUF_INIT(KUBE_CONFIG_FILE_MAX);
		const char *name = kube_json_text_at(value, "name", NULL);
		const char *text = first ? kube_json_text_at(value, NULL)
					 : kube_json_text_at(value, "value", NULL);

		if (!text || (!first && !name))
			return fail_field(err, EINVAL, e, field,
				first ? "expected texts" : "expected name and value");
		if (!first)
			buf_addf(&b, "%s=", name);
		buf_add_text(&b, text);
		list[from + i] = b.n ? buf_take(&b) : str_dup(STR(""));
		if (!list[from + i])
			return fail(err, ENOMEM, "out of memory for a kubeconfig");
	}
	return 0;
}

static int read_exec(
	struct reader *reader, const struct entry *user, const json_t *cluster, struct error *err)
{
	const struct entry e = {
		user->file, user->list, user->name, json_object_get(user->fields, "exec")};
	struct kube_exec *exec;
	_cleanup_free_ char *command = NULL, *path = NULL, *mode = NULL;
	_cleanup_buf_ struct buf where = BUF_INIT(4096);
	const json_t *extensions = json_object_get(cluster, "extensions");
	int r;

	exec = reader->config->exec = calloc(1, sizeof(*exec));
	if (!exec)
		return fail(err, ENOMEM, "out of memory for a kubeconfig");
	buf_addf(&where, "%s: users[%s].exec", e.file, e.name);
	exec->where = buf_take(&where);
	r = kube_config_read_text(&e, "command", &command, err);
	if (r == 0)
		r = kube_config_read_text(&e, "apiVersion", &exec->api_version, err);
	if (r == 0)
		r = kube_config_read_text(&e, "installHint", &exec->hint, err);
	if (r == 0)
		r = kube_config_read_text(&e, "interactiveMode", &mode, err);
	if (r == 0)
		r = read_flag(&e, "provideClusterInfo", &exec->wants_cluster, err);
	if (r < 0)
		return r;
	if (!command)
		return fail_field(err, EINVAL, &e, "exec.command", "missing");
	if (mode && !strcmp(mode, "Always"))
		return fail_field(err, EINVAL, &e, "exec.interactiveMode",
			"no terminal for a dialogue; expected IfAvailable or Never");
	if (!exec->api_version ||
		(strcmp(exec->api_version, "client.authentication.k8s.io/v1") != 0 &&
			strcmp(exec->api_version, "client.authentication.k8s.io/v1beta1") != 0))
		return fail_field(err, EINVAL, &e, "exec.apiVersion",
			"expected client.authentication.k8s.io/v1 or v1beta1");
	exec->cluster_config = json_incref(json_object_get(
		kube_json_find(extensions, "name", "client.authentication.k8s.io/exec"),
		"extension"));
	path = strchr(command, '/') ? path_beside(e.file, command) : str_dup(str_from(command));
	if (!path || !exec->where)
		return fail(err, ENOMEM, "out of memory for a kubeconfig");
	r = kube_config_read_list(&e, "args", path, &exec->argv, err);
	return r < 0 ? r : kube_config_read_list(&e, "env", NULL, &exec->env, err);
}

/* Appends a header line; refuses control characters, which could begin another header. */
static bool add_as(struct buf *as, const char *header, struct str value)
{
	for (size_t i = 0; i < value.n; i++)
		if ((unsigned char)value.p[i] < 0x20 || value.p[i] == 0x7f)
			return false;
	if (as->n)
		buf_add_byte(as, '\n');
	buf_addf(as, "Impersonate-%s: %" STR_FMT, header, STR_ARG(value));
	return value.n > 0;
}

static int read_as(struct kube_config *config, const struct entry *e, struct error *err)
{
	const json_t *groups = json_object_get(e->fields, "as-groups"), *group;
	_cleanup_buf_ struct buf as = BUF_INIT(KUBE_CONFIG_FILE_MAX);
	_cleanup_free_ char *user = NULL;
	int r = kube_config_read_text(e, "as", &user, err);
	size_t i;

	if (r < 0 || (!user && !groups))
		return r;
	if (!user)
		return fail_field(err, EINVAL, e, "as-groups", "needs the field as");
	if (!add_as(&as, "User", str_from(user)))
		return fail_field(err, EINVAL, e, "as", "expected a name");
	if (groups && !json_is_array(groups))
		return fail_field(err, EINVAL, e, "as-groups", "expected a list");
	json_array_foreach(groups, i, group)
		if (!json_is_string(group) ||
			!add_as(&as, "Group", str_from(json_string_value(group))))
			return fail_field(err, EINVAL, e, "as-groups", "expected names");
	config->as = buf_take(&as);
	return config->as ? 0 : fail(err, ENOMEM, "out of memory for a kubeconfig");
}

static int read_user(
	struct reader *reader, const struct entry *e, const json_t *cluster, struct error *err)
{
	static const char *const refused[][2] = {
		{"username", "basic authentication is not supported; use a token or exec"},
		{"password", "basic authentication is not supported; use a token or exec"},
		{"auth-provider", "auth providers are not supported; use exec"},
		{"as-uid", "not supported; use as and as-groups"},
		{"as-user-extra", "not supported; use as and as-groups"},
	};
	struct kube_config *config = reader->config;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		const json_t *value = json_object_get(e->fields, refused[i][0]);

		if (value && !json_is_null(value))
			return fail_field(err, ENOTSUP, e, refused[i][0], refused[i][1]);
	}
	r = read_pem(e, "client-certificate", &config->cert_pem, err);
	if (r == 0)
		r = read_pem(e, "client-key", &config->key_pem, err);
	if (r == 0 && !config->cert_pem != !config->key_pem)
		return fail_field(err, EINVAL, e,
			config->cert_pem ? "client-key" : "client-certificate",
			"missing; certificate and key belong together");
	if (r == 0)
		r = kube_config_read_text(e, "token", &config->token, err);
	if (r == 0)
		r = read_path(e, "tokenFile", &config->token_file, err);
	if (r == 0 && json_is_object(json_object_get(e->fields, "exec")))
		r = read_exec(reader, e, cluster, err);
	return r < 0 ? r : read_as(config, e, err);
}

static int read_context(struct reader *reader, const struct entry *context, struct error *err)
{
	_cleanup_free_ char *cluster_name = NULL, *user_name = NULL;
	_cleanup_buf_ struct buf where = BUF_INIT(4096);
	struct entry cluster, user;
	int r = kube_config_read_text(context, "cluster", &cluster_name, err);

	if (r == 0)
		r = kube_config_read_text(context, "user", &user_name, err);
	if (r == 0)
		r = kube_config_read_text(
			context, "namespace", &reader->config->namespace_name, err);
	if (r < 0)
		return r;
	if (!cluster_name)
		return fail_field(err, EINVAL, context, "cluster", "missing");
	r = kube_config_find_entry(reader, "clusters", cluster_name, &cluster, err);
	if (r == 0)
		r = read_cluster(reader, &cluster, err);
	if (r == 0 && user_name)
		r = kube_config_find_entry(reader, "users", user_name, &user, err);
	if (r == 0 && user_name)
		r = read_user(reader, &user, cluster.fields, err);
	if (r < 0)
		return r;
	buf_addf(&where, "%s, context %s", context->file, context->name);
	reader->config->where = buf_take(&where);
	if (!reader->config->namespace_name)
		reader->config->namespace_name = str_dup(STR("default"));
	return reader->config->where && reader->config->namespace_name
		? 0
		: fail(err, ENOMEM, "out of memory for a kubeconfig");
}

static int parse_file(struct reader *reader, const struct kube_config_text *text, struct error *err)
{
	_cleanup_json_ json_t *documents = NULL;
	json_t *json;
	int r = yaml_parse(text->text, &documents, err);

	if (r < 0)
		return fail_within(err, r, "%s", text->name);
	json = json_array_get(documents, 0);
	if (json_array_size(documents) > 1 || (json && !json_is_object(json)))
		return fail(err, EINVAL, "%s: not a kubeconfig", text->name);
	reader->files[reader->n_files++] = (struct source_file){text->name, json_incref(json)};
	return 0;
}

static int read_files(struct reader *reader, const char *context, struct error *err)
{
	struct entry entry;
	int r;

	for (size_t i = 0; !context && i < reader->n_files; i++) {
		context = kube_json_text_at(reader->files[i].json, "current-context", NULL);
		if (context && !context[0])
			context = NULL;
	}
	if (!context)
		return fail(err, ENOENT, "%s: current-context: missing", reader->files[0].name);
	r = kube_config_find_entry(reader, "contexts", context, &entry, err);
	return r < 0 ? r : read_context(reader, &entry, err);
}

int kube_config_parse(const struct kube_config_text *texts, size_t n_texts,
	const struct kube_config_source *source, struct kube_config **ret_config, struct error *err)
{
	_cleanup_kube_config_ struct kube_config *config = calloc(1, sizeof(*config));
	struct reader reader = {
		.config = config, .is_insecure_allowed = source && source->is_insecure_allowed};
	int r = 0;

	if (!config)
		return fail(err, ENOMEM, "out of memory for a kubeconfig");
	if (!n_texts || n_texts > KUBE_CONFIG_FILES_MAX)
		return fail(err, EINVAL, "1 to %u kubeconfig files", KUBE_CONFIG_FILES_MAX);
	for (size_t i = 0; r == 0 && i < n_texts; i++)
		r = parse_file(&reader, &texts[i], err);
	if (r == 0)
		r = read_files(&reader, source ? source->context : NULL, err);
	for (size_t i = 0; i < reader.n_files; i++)
		json_decref(reader.files[i].json);
	if (r < 0)
		return r;
	*ret_config = TAKE_PTR(config);
	return 0;
}

struct read_in {
	struct kube_config_text text[KUBE_CONFIG_FILES_MAX];
	char *name[KUBE_CONFIG_FILES_MAX];
	struct buf buf[KUBE_CONFIG_FILES_MAX];
	size_t n;
};

static void read_in_done(struct read_in *in)
{
	for (size_t i = 0; i < KUBE_CONFIG_FILES_MAX; i++) {
		free(in->name[i]);
		buf_done(&in->buf[i]);
	}
}

/* Skips missing files of a list, as kubectl does, but not if all are missing. */
static int read_in(struct read_in *in, const char *files, struct error *err)
{
	struct str rest = str_from(files), path;

	while (str_split(&rest, ':', &path)) {
		const size_t i = in->n;
		int r;

		if (!path.n)
			continue;
		if (i == KUBE_CONFIG_FILES_MAX)
			return fail(err, E2BIG, "KUBECONFIG: more than %u files",
				KUBE_CONFIG_FILES_MAX);
		free(in->name[i]);
		in->name[i] = str_dup(path);
		in->buf[i] = BUF_INIT(KUBE_CONFIG_FILE_MAX);
		r = in->name[i] ? file_read(in->name[i], &in->buf[i], err)
				: fail(err, ENOMEM, "out of memory for a kubeconfig");
		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		in->text[i] = (struct kube_config_text){in->name[i], buf_str(&in->buf[i])};
		in->n++;
	}
	return in->n ? 0 : fail(err, ENOENT, "kubeconfig '%s': no such file", files);
}

int kube_config_load(
	const struct kube_config_source *source, struct kube_config **ret_config, struct error *err)
{
	const char *files = source ? source->files : NULL;
	const char *home = getenv("HOME");
	_cleanup_(read_in_done) struct read_in in = {0};
	_cleanup_buf_ struct buf path = BUF_INIT(4096);
	struct stat st;
	int r;

	if (!files)
		files = getenv("KUBECONFIG");
	if (files && !files[0])
		files = NULL;
	if (!files && home) {
		buf_addf(&path, "%s/.kube/config", home);
		if (stat(buf_text(&path), &st) == 0)
			files = buf_text(&path);
	}
	if (!files && getenv("KUBERNETES_SERVICE_HOST"))
		return kube_config_in_pod(source ? source->pod_folder : NULL, ret_config, err);
	if (!files)
		return fail(err, ENOENT,
			"no cluster configured: set KUBECONFIG, create ~/.kube/config, or run in "
			"a pod");
	r = read_in(&in, files, err);
	return r < 0 ? r : kube_config_parse(in.text, in.n, source, ret_config, err);
}

static int read_in_pod(const char *folder, const char *name, char **ret_text, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(KUBE_CONFIG_FILE_MAX), path = BUF_INIT(4096);
	int r;

	buf_addf(&path, "%s/%s", folder, name);
	r = file_read(buf_text(&path), &text, err);
	if (r < 0)
		return r;
	*ret_text = str_dup(str_trim(buf_str(&text)));
	return *ret_text ? 0 : fail(err, ENOMEM, "out of memory for '%s'", name);
}

int kube_config_in_pod(const char *folder, struct kube_config **ret_config, struct error *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	_cleanup_kube_config_ struct kube_config *config = calloc(1, sizeof(*config));
	_cleanup_buf_ struct buf server = BUF_INIT(512), token = BUF_INIT(4096);
	_cleanup_free_ char *probe = NULL;
	uint64_t n;
	int r;

	if (!config)
		return fail(err, ENOMEM, "out of memory for a configuration");
	if (!folder)
		folder = KUBE_POD_FOLDER;
	if (!host || !host[0] || !port || parse_uint(str_from(port), 1, 65535, &n, NULL) < 0)
		return fail(err, ENOENT,
			"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: missing: not in a "
			"pod");
	if (strpbrk(host, "/@?# "))
		return fail(err, EINVAL, "KUBERNETES_SERVICE_HOST: '%s' is not a host", host);
	buf_addf(&server, strchr(host, ':') && host[0] != '[' ? "https://[%s]:%s" : "https://%s:%s",
		host, port);
	buf_addf(&token, "%s/token", folder);
	r = read_in_pod(folder, "token", &probe, err);
	if (r == 0)
		r = read_in_pod(folder, "ca.crt", &config->ca_pem, err);
	if (r == 0)
		r = read_in_pod(folder, "namespace", &config->namespace_name, err);
	if (r < 0)
		return r;
	config->server = buf_take(&server);
	config->token_file = buf_take(&token);
	config->where = str_dup(STR("in the cluster"));
	if (!config->server || !config->token_file || !config->where)
		return fail(err, ENOMEM, "out of memory for a configuration");
	*ret_config = TAKE_PTR(config);
	return 0;
}

int kube_config_act_as(
	struct kube_config *config, const char *user, const char *groups, struct error *err)
{
	_cleanup_buf_ struct buf as = BUF_INIT(KUBE_CONFIG_FILE_MAX);
	struct str rest = str_from(groups ? groups : ""), group;

	if (!user)
		return fail(err, EINVAL, "--as-group needs --as");
	if (!add_as(&as, "User", str_from(user)))
		return fail(err, EINVAL, "the user to act as: expected a name");
	while (str_split(&rest, ',', &group))
		if (group.n && !add_as(&as, "Group", group))
			return fail(err, EINVAL, "the groups to act as: expected names");
	free(config->as);
	config->as = buf_take(&as);
	return config->as ? 0 : fail(err, ENOMEM, "out of memory for --as and --as-group");
}

static void free_list(char **list)
{
	for (char **item = list; item && *item; item++)
		free(*item);
	free(list);
}

void kube_config_free(struct kube_config *config)
{
	if (!config)
		return;
	if (config->exec) {
		free(config->exec->where);
		free(config->exec->api_version);
		free_list(config->exec->argv);
		free_list(config->exec->env);
		free(config->exec->hint);
		json_decref(config->exec->cluster_config);
		free(config->exec);
	}
	free(config->where);
	free(config->server);
	free(config->namespace_name);
	free(config->tls_server_name);
	free(config->proxy_url);
	free(config->ca_pem);
	free(config->cert_pem);
	str_wipe(&config->key_pem);
	str_wipe(&config->token);
	free(config->token_file);
	free(config->as);
	free(config);
}
