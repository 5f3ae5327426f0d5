/* SPDX-License-Identifier: Apache-2.0 */
#include "manifest-text.h"

#include "base/format.h"

static void append(struct manifest_list *list, struct manifest_entry *room, struct manifest_entry e)
{
	list->entry = room;
	if (list->n < MANIFEST_TEXT_ENTRIES)
		room[list->n++] = e;
}

static void add_container(struct manifest_text *t, struct str line)
{
	struct str name = STR_NONE, kind = STR_NONE;

	if (t->pod.n_containers == MANIFEST_TEXT_CONTAINERS || !str_word(&line, &name))
		return;
	str_word(&line, &kind);
	t->container[t->pod.n_containers++] = (struct manifest_container){.name = name,
		.kind = str_is(kind, "init")      ? MANIFEST_INIT
			: str_is(kind, "sidecar") ? MANIFEST_SIDECAR
						  : MANIFEST_MAIN};
}

static void add_entry(struct manifest_text *t, char what, struct str line)
{
	const size_t at = str_find(line, '=');
	const uint32_t i = t->pod.n_containers ? t->pod.n_containers - 1 : 0;
	struct manifest_container *c = &t->container[i];
	struct manifest_entry e = {{line.p, at}, {line.p + at + 1, line.n - at - 1}};

	if (at == line.n)
		return;
	if (what == 'a')
		append(&t->pod.annotations, t->annotations, e);
	if (what == 'l')
		append(&t->pod.labels, t->labels, e);
	if (!t->pod.n_containers)
		return;
	if (what == 'r' || what == 'q')
		append(&c->requests, t->requests[i], e);
	if (what == 'r' || what == 'm')
		append(&c->limits, t->limits[i], e);
	if (what == 'e')
		append(&c->env, t->env[i], e);
}

void manifest_text_parse(struct str text, struct manifest_text *ret)
{
	struct str line, all = text;
	bool has_container = false;

	memset(ret, 0, sizeof(*ret));
	ret->pod.container = ret->container;
	while (str_split(&all, '\n', &line))
		has_container |= str_has_prefix(line, STR("c "));
	if (!has_container)
		add_container(ret, STR("main"));
	while (str_split(&text, '\n', &line)) {
		const char what = line.n > 2 && line.p[1] == ' ' ? line.p[0] : '\0';

		line = what ? (struct str){line.p + 2, line.n - 2} : line;
		if (what == 'c')
			add_container(ret, line);
		else if (what == 'n')
			ret->pod.node = line;
		else if (what == 'd')
			ret->dialects = line;
		else if (what == 'g')
			ret->pod.scheduling_group = line;
		else if (what)
			add_entry(ret, what, line);
	}
}

static void show_text(struct buf *out, const char *field, const char *value)
{
	if (value[0])
		buf_addf(out, " %s=%s", field, value);
}

static void show_spec(struct buf *out, const struct spec *s)
{
	char network[SPEC_NETWORK];

	buf_addf(out, " request=%s limit=%s",
		format_share(s->exclusive ? s->count * SPEC_SHARE_ONE : s->request).s,
		format_share(s->limit).s);
	if (s->exclusive)
		buf_add_text(out, " exclusive");
	else if (s->count > 1)
		buf_addf(out, " count=%u", s->count);
	if (s->memory_bytes)
		buf_addf(out, " memory=%s", format_bytes_exact(s->memory_bytes).s);
	if (s->memory_permille)
		buf_addf(out, " memory=%s", format_percent(s->memory_permille).s);
	if (s->memory_policy != SPEC_MEMORY_FAIL)
		show_text(out, "memory-policy", spec_memory_policy_name(s->memory_policy));
	if (s->class != SPEC_STANDARD)
		show_text(out, "class", spec_class_name(s->class));
	if (s->priority != (s->class == SPEC_OPPORTUNISTIC ? 0 : 50))
		buf_addf(out, " priority=%u", s->priority);
	if (s->mode != SPEC_MODE_AUTO)
		show_text(out, "mode", spec_mode_name(s->mode));
	show_text(out, "model", s->model);
	show_text(out, "device", s->device);
	show_text(out, "affinity", s->affinity);
	show_text(out, "anti-affinity", s->anti_affinity);
	show_text(out, "preferred-anti-affinity", s->preferred_anti_affinity);
	if (s->has_exclusion)
		buf_addf(out, " exclusion=%s", s->exclusion);
	show_text(out, "network", spec_network_format(s, network));
}

void manifest_text_show(
	const struct manifest *pod, const struct dialect_result *result, struct buf *out)
{
	for (uint32_t i = 0; i < result->n_tenants; i++) {
		const struct dialect_tenant *t = &result->tenant[i];

		buf_addf(out, "%s%" STR_FMT, out->n ? "; " : "",
			STR_ARG(pod->container[t->container].name));
		show_spec(out, &t->spec);
	}
	if (result->group[0])
		buf_addf(out, "%sgroup=%s %u %s%s%s", out->n ? "; " : "", result->group,
			result->group_size, format_share(result->group_threshold).s,
			result->group_object ? " " : "",
			result->group_object ? result->group_object : "");
	if (result->group_object_name.n)
		buf_addf(out, " %" STR_FMT, STR_ARG(result->group_object_name));
	if (result->group_part.n)
		buf_addf(out, " %" STR_FMT, STR_ARG(result->group_part));
	if (result->vgpu.n)
		buf_addf(out, "%svgpu=%" STR_FMT, out->n ? "; " : "", STR_ARG(result->vgpu));
	for (uint32_t i = 0; i < result->n_foreign; i++)
		buf_addf(out, "%s-%" STR_FMT "/%" STR_FMT "=%llu", out->n ? "; " : "",
			STR_ARG(pod->container[result->foreign[i].container].name),
			STR_ARG(result->foreign[i].resource),
			(unsigned long long)result->foreign[i].value);
}
