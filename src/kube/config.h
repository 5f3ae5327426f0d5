/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the API server is and who we are: from kubeconfig files, or from what a pod finds in
 * itself. Reads files and blocks for that long; nothing is run and nobody is connected to. Keys
 * stay in memory. Errors name the file and the field. Any thread.
 */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/json.h"

#define KUBE_CONFIG_FILES_MAX 32u
#define KUBE_CONFIG_FILE_MAX (1u << 20)
#define KUBE_TOKEN_MAX (64u << 10)
#define KUBE_POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/* A program that says the token, or a client certificate (client.authentication.k8s.io). */
struct kube_exec {
	char *where;       /* "FILE: users[NAME].exec", for messages */
	char *api_version; /* client.authentication.k8s.io/v1 or v1beta1 */
	char **argv;       /* NULL at the end */
	char **env;        /* "NAME=value", NULL at the end */
	char *hint;        /* what to do when the program is missing; or NULL */
	bool wants_cluster;
	json_t *cluster_config; /* or NULL */
};

/* Texts are owned, and NULL where there is nothing. */
struct kube_config {
	char *where;  /* "FILE, context NAME" or "in the cluster", for messages */
	char *server; /* https://host:port/prefix, without a slash at the end */
	char *namespace_name;
	char *tls_server_name;
	char *proxy_url;
	char *ca_pem;     /* NULL: those that the system trusts */
	bool is_insecure; /* the certificate is not verified: only when asked for */
	char *cert_pem, *key_pem;
	char *token;
	char *token_file; /* read again and again; wins over token */
	struct kube_exec *exec;
	/* Whom the server is to take us for, a line of headers each: "Impersonate-User: ...". */
	char *as;
};

struct kube_config_source {
	const char *files;      /* as KUBECONFIG; NULL: KUBECONFIG, ~/.kube/config, or the pod's */
	const char *context;    /* NULL: the current one */
	const char *pod_folder; /* NULL: KUBE_POD_FOLDER */
	bool is_insecure_allowed; /* insecure-skip-tls-verify and http:// are refused otherwise */
};

/* source may be NULL: all defaults. */
int kube_config_load(const struct kube_config_source *source, struct kube_config **ret_config,
	struct error *err);

/* What a pod finds in itself: KUBERNETES_SERVICE_HOST and _PORT, token, ca.crt, namespace. */
int kube_config_in_pod(const char *folder, struct kube_config **ret_config, struct error *err);

/* Texts as files in the order in which they count; for tests. folders: of relative paths. */
struct kube_config_text {
	const char *name;
	struct str text;
};
int kube_config_parse(const struct kube_config_text *texts, size_t n_texts,
	const struct kube_config_source *source, struct kube_config **ret_config,
	struct error *err);

/*
 * The server is to take us for that user, in the groups of a list "a,b" (NULL: none), whoever the
 * configuration says. -EINVAL: no user, or a character that no name has. -ENOMEM.
 */
int kube_config_act_as(
	struct kube_config *config, const char *user, const char *groups, struct error *err);

void kube_config_free(struct kube_config *config);
DEFINE_CLEANUP(struct kube_config *, kube_config_free)
#define _cleanup_kube_config_ _cleanup_(kube_config_free_p)

#endif
