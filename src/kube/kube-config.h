/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address of the API server and our credentials: from kubeconfig files or from a pod's service
 * account. Reads files and blocks meanwhile; runs no program and opens no connection. Keys stay in
 * memory. Errors name file and field. Any thread.
 */
#ifndef KUBE_KUBE_CONFIG_H
#define KUBE_KUBE_CONFIG_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/kube-json.h"

#define KUBE_CONFIG_FILES_MAX 32u
#define KUBE_CONFIG_FILE_MAX (1u << 20)
#define KUBE_TOKEN_MAX (64u << 10)
#define KUBE_POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/*
 * A credential plugin (client.authentication.k8s.io): a program that prints a token or a client
 * certificate.
 */
struct kube_exec {
	char *where;       /* "FILE: users[NAME].exec", for messages */
	char *api_version; /* client.authentication.k8s.io/v1 or v1beta1 */
	char **argv;       /* NULL at the end */
	char **env;        /* "NAME=value", NULL at the end */
	char *hint;        /* advice if the program is missing, or NULL */
	bool wants_cluster;
	json_t *cluster_config; /* or NULL */
};

/* The struct owns its texts; an absent value is NULL. */
struct kube_config {
	char *where;  /* "FILE, context NAME" or "in the cluster", for messages */
	char *server; /* https://host:port/prefix, without a final slash */
	char *namespace_name;
	char *tls_server_name;
	char *proxy_url;
	char *ca_pem;     /* NULL: the system's authorities */
	bool is_insecure; /* do not verify the certificate */
	char *cert_pem, *key_pem;
	char *token;
	char *token_file; /* read repeatedly; takes precedence over token */
	struct kube_exec *exec;
	/* Impersonation: one header on each line, "Impersonate-User: ...". */
	char *as;
};

struct kube_config_source {
	/*
	 * paths between ':', as in KUBECONFIG; NULL: KUBECONFIG, ~/.kube/config, or the pod's
	 * service account
	 */
	const char *files;
	const char *context;      /* NULL: current-context */
	const char *pod_folder;   /* NULL: KUBE_POD_FOLDER */
	bool is_insecure_allowed; /* false: insecure-skip-tls-verify and http:// are refused */
};

/* source may be NULL: all defaults. Returns 0 or -errno. */
int kube_config_load(const struct kube_config_source *source, struct kube_config **ret_config,
	struct error *err);

/* From a pod's own environment: KUBERNETES_SERVICE_HOST and _PORT, token, ca.crt, namespace. */
int kube_config_in_pod(const char *folder, struct kube_config **ret_config, struct error *err);

/*
 * Parses texts as files in their order of precedence; for tests. A name's folder is the base of
 * relative paths.
 */
struct kube_config_text {
	const char *name;
	struct str text;
};
int kube_config_parse(const struct kube_config_text *texts, size_t n_texts,
	const struct kube_config_source *source, struct kube_config **ret_config,
	struct error *err);

/*
 * Impersonates that user, in the groups of the list "a,b" (NULL: none), instead of a user from the
 * configuration. Returns 0; -EINVAL if the user is missing or a name has a control character;
 * -ENOMEM.
 */
int kube_config_act_as(
	struct kube_config *config, const char *user, const char *groups, struct error *err);

void kube_config_free(struct kube_config *config);
DEFINE_CLEANUP(struct kube_config *, kube_config_free)
#define _cleanup_kube_config_ _cleanup_(kube_config_free_p)

#endif
