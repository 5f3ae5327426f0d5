/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold-identity KUBECONFIG NAMESPACE URI...: holds these identities as divvyd does. When one
 * changes, it prints a line of JSON, {"uri", "crt", "authority", "why"}, but never a key. It runs
 * until its stdin ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "kube/kube-config.h"
#include "kube/kube-json.h"
#include "node/node-identity.h"

static void on_change(void *data, struct held_identity *held)
{
	const struct identity *identity = held_identity_get(held);
	char uri[IDENTITY_URI] = "";
	_cleanup_json_ json_t *line = NULL;
	_cleanup_free_ char *text = NULL;

	identity_name_format(held_identity_name(held), uri);
	line = json_pack("{s:s, s:s?, s:s?, s:s}", "uri", uri, "crt",
		identity ? identity->crt : NULL, "authority", identity ? identity->authority : NULL,
		"why", held_identity_why(held));
	text = kube_json_format(line);
	puts(text ? text : "{}");
	fflush(stdout);
}

static void on_stdin(struct loop_io *io, uint32_t events)
{
	char some[64];

	if (read(STDIN_FILENO, some, sizeof(some)) <= 0)
		loop_stop(io->loop, 0);
}

static int hold(struct identities *all, const char *uri, struct error *err)
{
	struct identity_name name;
	struct held_identity *held;
	int r = identity_name_parse(str_from(uri), &name, err);

	return r < 0 ? r : identity_hold(all, &name, on_change, NULL, &held, err);
}

int main(int argc, char **argv)
{
	const struct kube_config_source source = {.files = argc > 1 ? argv[1] : NULL};
	struct kube_config *config = NULL;
	struct kube_client *client = NULL;
	struct identities *all = NULL;
	struct loop *loop = NULL;
	struct loop_io in = {0};
	struct error err = {0};
	int r;

	if (argc < 4) {
		fprintf(stderr, "usage: hold-identity KUBECONFIG NAMESPACE URI...\n");
		return 2;
	}
	r = loop_new(&loop);
	r = r < 0 ? r : loop_add_io(loop, &in, STDIN_FILENO, EPOLLIN, on_stdin);
	r = r < 0 ? r : kube_config_load(&source, &config, &err);
	r = r < 0 ? r : kube_client_new(loop, config, NULL, &client, &err);
	r = r < 0 ? r : identities_new(client, argv[2], &all, &err);
	for (int i = 3; r == 0 && i < argc; i++)
		r = hold(all, argv[i], &err);
	if (r == 0)
		r = loop_run(loop);
	identities_free(all);
	kube_client_free(client);
	kube_config_free(config);
	loop_remove_io(&in);
	loop_free(loop);
	if (r < 0)
		fprintf(stderr, "hold-identity: %d, %s\n", r, err.msg);
	return r < 0;
}
