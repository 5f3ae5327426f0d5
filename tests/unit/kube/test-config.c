/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "kube/kube-config.h"

#define PEM "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
#define PEM_DATA "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="

#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: one\n"
#define CONTEXT "contexts: [{name: one, context: {cluster: c, user: u, namespace: n}}]\n"
#define CLUSTER(fields) "clusters: [{name: c, cluster: {" fields "}}]\n"
#define USER(fields) "users: [{name: u, user: {" fields "}}]\n"
#define SERVER "server: 'https://host:6443/'"

static int parse(const char *text, const struct kube_config_source *source,
	struct kube_config **ret_config, struct error *err)
{
	const struct kube_config_text one = {"/etc/kube/file", str_from(text)};

	return kube_config_parse(&one, 1, source, ret_config, err);
}

static void expect_refused(const char *text, int code, const char *where, const char *what)
{
	struct kube_config *config = NULL;
	struct error err = {0};
	int r = parse(text, NULL, &config, &err);

	if (r != -code)
		fail_msg("%d: %s: %s", r, err.msg, text);
	assert_null(config);
	assert_contains(err.msg, "/etc/kube/file");
	assert_contains(err.msg, where);
	assert_contains(err.msg, what);
}

static void reads_a_kubeconfig(void **state)
{
	_cleanup_kube_config_ struct kube_config *config = NULL;
	struct error err = {0};

	if (parse(HEAD CONTEXT CLUSTER(SERVER ", certificate-authority-data: " PEM_DATA
					      ", tls-server-name: other, proxy-url: 'http://p:1'")
			    USER("client-certificate-data: " PEM_DATA ", client-key-data: " PEM_DATA
				 ", token: secret, tokenFile: rel/token"),
		    NULL, &config, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(config->server, "https://host:6443");
	assert_string_equal(config->namespace_name, "n");
	assert_string_equal(config->tls_server_name, "other");
	assert_string_equal(config->proxy_url, "http://p:1");
	assert_string_equal(config->ca_pem, PEM);
	assert_string_equal(config->cert_pem, PEM);
	assert_string_equal(config->key_pem, PEM);
	assert_string_equal(config->token, "secret");
	assert_string_equal(config->token_file, "/etc/kube/rel/token");
	assert_string_equal(config->where, "/etc/kube/file, context one");
	assert_false(config->is_insecure);
}

static void acts_as_another_user(void **state)
{
	_cleanup_kube_config_ struct kube_config *config = NULL;
	struct error err = {0};

	if (parse(HEAD CONTEXT CLUSTER(SERVER) USER("token: t, as: eve, as-groups: [a, 'b c']"),
		    NULL, &config, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(
		config->as, "Impersonate-User: eve\nImpersonate-Group: a\nImpersonate-Group: b c");
	assert_int_equal(kube_config_act_as(config, NULL, "a", &err), -EINVAL);
	assert_contains(err.msg, "needs --as");
	assert_int_equal(kube_config_act_as(config, "a\r\nX: y", NULL, &err), -EINVAL);
	assert_int_equal(kube_config_act_as(config, "ann", "x,y", &err), 0);
	assert_string_equal(
		config->as, "Impersonate-User: ann\nImpersonate-Group: x\nImpersonate-Group: y");
}

static void reads_a_plugin(void **state)
{
	_cleanup_kube_config_ struct kube_config *config = NULL;
	struct error err = {0};

	if (parse(HEAD CONTEXT
		    "clusters:\n- name: c\n  cluster:\n    server: https://h\n    extensions:\n"
		    "    - name: client.authentication.k8s.io/exec\n      extension: {a: 1}\n" USER(
			    "exec: {apiVersion: client.authentication.k8s.io/v1, command: "
			    "./bin/plug, args: [get, ''], env: [{name: A, value: b}], installHint: "
			    "install it, provideClusterInfo: true, interactiveMode: Never}"),
		    NULL, &config, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(config->exec->argv[0], "/etc/kube/./bin/plug");
	assert_string_equal(config->exec->argv[1], "get");
	assert_string_equal(config->exec->argv[2], "");
	assert_null(config->exec->argv[3]);
	assert_string_equal(config->exec->env[0], "A=b");
	assert_true(config->exec->wants_cluster);
	assert_int_equal(json_integer_value(json_object_get(config->exec->cluster_config, "a")), 1);
}

static void errors_name_file_and_field(void **state)
{
	expect_refused("a: [", EINVAL, "file", "line");
	expect_refused("[1]", EINVAL, "file", "not a kubeconfig");
	expect_refused("kind: Config\n", ENOENT, "current-context", "missing");
	expect_refused(HEAD, ENOENT, "'one'", "contexts");
	expect_refused(HEAD CONTEXT, ENOENT, "'c'", "clusters");
	expect_refused(HEAD CONTEXT CLUSTER("x: 1"), EINVAL, "clusters[c].server", "missing");
	expect_refused(HEAD CONTEXT CLUSTER("server: 'ftp://x'"), EINVAL, "server", "https://");
	expect_refused(HEAD CONTEXT CLUSTER("server: 'https://u@h'"), EINVAL, "server", "HOST");
	expect_refused(HEAD CONTEXT CLUSTER("server: 'http://h'"), EPERM, "server", "encrypted");
	expect_refused(HEAD CONTEXT CLUSTER(SERVER), ENOENT, "'u'", "users");
	expect_refused(HEAD CONTEXT CLUSTER(SERVER ", insecure-skip-tls-verify: true"), EPERM,
		"insecure-skip-tls-verify", "certificate-authority");
	expect_refused(HEAD CONTEXT CLUSTER(SERVER ", insecure-skip-tls-verify: 1"), EINVAL,
		"insecure-skip-tls-verify", "true or false");
	expect_refused(HEAD CONTEXT CLUSTER(SERVER ", certificate-authority-data: '*'"), EINVAL,
		"certificate-authority-data", "base64");
	expect_refused(HEAD CONTEXT CLUSTER(SERVER ", certificate-authority-data: Zm9v"), EINVAL,
		"certificate-authority-data", "PEM");
	expect_refused(HEAD CONTEXT CLUSTER(SERVER ", certificate-authority: none/ca"), ENOENT,
		"clusters[c].certificate-authority", "/etc/kube/none/ca");
#define USER_OF(fields) HEAD CONTEXT CLUSTER(SERVER) USER(fields)
	expect_refused(USER_OF("client-certificate-data: " PEM_DATA), EINVAL, "users[u].client-key",
		"missing");
	expect_refused(USER_OF("token: 5"), EINVAL, "users[u].token", "text");
	expect_refused(USER_OF("username: a"), ENOTSUP, "users[u].username", "basic");
	expect_refused(USER_OF("auth-provider: {}"), ENOTSUP, "auth-provider", "exec");
	expect_refused(USER_OF("as: \"a\\nX-Y: z\""), EINVAL, "users[u].as", "name");
	expect_refused(USER_OF("as: []"), EINVAL, "users[u].as", "text");
	expect_refused(
		USER_OF("as-groups: [a]"), EINVAL, "users[u].as-groups", "needs the field as");
	expect_refused(USER_OF("as: a, as-groups: b"), EINVAL, "users[u].as-groups", "list");
	expect_refused(USER_OF("as: a, as-groups: [\"\"]"), EINVAL, "users[u].as-groups", "names");
	expect_refused(USER_OF("as: a, as-uid: b"), ENOTSUP, "users[u].as-uid", "as-groups");
	expect_refused(USER_OF("exec: {command: a, apiVersion: x/v1}"), EINVAL, "exec.apiVersion",
		"v1beta1");
	expect_refused(USER_OF("exec: {apiVersion: client.authentication.k8s.io/v1}"), EINVAL,
		"exec.command", "missing");
	expect_refused(USER_OF("exec: {command: a, apiVersion: client.authentication.k8s.io/v1, "
			       "args: [1]}"),
		EINVAL, "args", "texts");
	expect_refused(USER_OF("exec: {command: a, apiVersion: client.authentication.k8s.io/v1, "
			       "interactiveMode: Always}"),
		EINVAL, "interactiveMode", "Never");
}

static void allows_insecure_settings_on_request(void **state)
{
	_cleanup_kube_config_ struct kube_config *config = NULL;
	const struct kube_config_source source = {.is_insecure_allowed = true};

	assert_ok(parse(HEAD "contexts: [{name: one, context: {cluster: c}}]\n" CLUSTER(
				"server: 'http://h', insecure-skip-tls-verify: true"),
		&source, &config, NULL));
	assert_true(config->is_insecure);
	assert_string_equal(config->namespace_name, "default");
}

static void merges_files_and_the_first_counts(void **state)
{
	const struct kube_config_text texts[] = {
		{"/a/one", STR("users: [{name: u, user: {tokenFile: t}}]\n")},
		{"/b/two", STR(HEAD CONTEXT CLUSTER(SERVER) USER("token: wrong"))},
		{"/c/three",
			STR("current-context: two\n" CLUSTER(
				"server: 'https://wrong'") "contexts: [{name: two, context: "
							   "{cluster: c, user: u}}]")},
	};
	const struct kube_config_source source = {.context = "two"};
	_cleanup_kube_config_ struct kube_config *config = NULL, *other = NULL;

	assert_ok(kube_config_parse(texts, 3, NULL, &config, NULL));
	assert_string_equal(config->server, "https://host:6443");
	assert_string_equal(config->token_file, "/a/t");
	assert_null(config->token);
	assert_string_equal(config->where, "/b/two, context one");
	assert_ok(kube_config_parse(texts, 3, &source, &other, NULL));
	assert_string_equal(other->where, "/c/three, context two");
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_ok(file_replace(path, str_from(text), 0600, NULL));
}

static void finds_itself_in_a_pod(void **state)
{
	char folder[] = "/tmp/test-kube-config-XXXXXX", path[256];
	_cleanup_kube_config_ struct kube_config *config = NULL;
	struct kube_config *none = NULL;
	struct error err;

	assert_non_null(mkdtemp(folder));
	write_file(folder, "token", "secret\n");
	write_file(folder, "ca.crt", PEM);
	write_file(folder, "namespace", "mine");
	unsetenv("KUBERNETES_SERVICE_HOST");
	assert_int_equal(kube_config_in_pod(folder, &none, &err), -ENOENT);
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	assert_ok(kube_config_in_pod(folder, &config, &err));
	assert_string_equal(config->server, "https://[fd00::1]:443");
	assert_string_equal(config->namespace_name, "mine");
	snprintf(path, sizeof(path), "%s/token", folder);
	assert_string_equal(config->token_file, path);
	unlink(path);
	assert_int_equal(kube_config_in_pod(folder, &none, &err), -ENOENT);
	assert_contains(err.msg, path);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, i ? "namespace" : "ca.crt");
		unlink(path);
	}
	rmdir(folder);
}

static void finds_files_by_the_environment(void **state)
{
	char folder[] = "/tmp/test-kube-config-XXXXXX", list[256], path[256];
	_cleanup_kube_config_ struct kube_config *config = NULL;
	struct kube_config *none = NULL;
	struct error err;

	assert_non_null(mkdtemp(folder));
	write_file(folder, "config", HEAD CONTEXT CLUSTER(SERVER) USER("token: t"));
	snprintf(list, sizeof(list), "%s/missing::%s/config", folder, folder);
	setenv("KUBECONFIG", list, 1);
	if (kube_config_load(NULL, &config, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(config->token, "t");
	setenv("KUBECONFIG", "/nonexistent/config", 1);
	assert_int_equal(kube_config_load(NULL, &none, &err), -ENOENT);
	assert_contains(err.msg, "/nonexistent/config");
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	setenv("HOME", folder, 1);
	assert_int_equal(kube_config_load(NULL, &none, &err), -ENOENT);
	assert_contains(err.msg, "KUBECONFIG");
	snprintf(path, sizeof(path), "%s/config", folder);
	unlink(path);
	rmdir(folder);
}

UNIT_MAIN(UNIT(reads_a_kubeconfig), UNIT(reads_a_plugin), UNIT(acts_as_another_user),
	UNIT(errors_name_file_and_field), UNIT(allows_insecure_settings_on_request),
	UNIT(merges_files_and_the_first_counts), UNIT(finds_itself_in_a_pod),
	UNIT(finds_files_by_the_environment))
