/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file builds the man page tenants.conf(5). The texts come from the folder text/, and the list
 * of fields comes from SPEC_FIELDS, so a new field appears without a change here. divvyd runs this
 * code for --dump-man only, during the build.
 */
#include "divvyd/divvyd-man.h"

#include "base/cleanup.h"
#include "base/man.h"
#include "divvyd/divvyd-text.h"
#include "spec/spec.h"

static const struct man_page conf_page = {
	.name = "tenants.conf",
	.section = 5,
	.summary = "tenants of programs that divvy run has not started",
	.made_by = "divvyd",
};

static const char *const rules[][2] = {TEXT_TENANTS_CONF_RULES};

static void add_terms(struct buf *out, const char *const (*terms)[2], size_t n)
{
	for (size_t i = 0; i < n; i++)
		man_add_term(out, terms[i][0], terms[i][1]);
}

static void add_fields(struct buf *out)
{
	static const char *const field[][2] = {
#define X(name, help) {#name, help},
		SPEC_FIELDS(X)
#undef X
	};

	buf_add_text(out, ".SH FIELDS\nEach rule needs request, except the rule default.\n");
	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		char spelled[32];

		str_copy(spelled, sizeof(spelled), str_from(field[i][0]));
		for (char *p = spelled; *p; p++)
			*p = *p == '_' ? '-' : *p;
		man_add_term(out, spelled, field[i][1]);
	}
}

int man_dump_conf(const char *folder, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);

	man_add_head(&out, &conf_page);
	buf_add_text(&out, ".I /etc/divvy/tenants.conf\n.SH DESCRIPTION\n");
	man_add_paragraphs(&out, TEXT_TENANTS_CONF_TEXT);
	buf_add_text(&out, ".SH RULES\n");
	add_terms(&out, rules, ARRAY_SIZE(rules));
	add_fields(&out);
	buf_add_text(&out, ".SH EXAMPLES\n.nf\n");
	man_add_text(&out, TEXT_TENANTS_CONF_EXAMPLES);
	buf_add_text(&out, "\n.fi\n.SH SEE ALSO\n\\fBdivvyd\\fR(8),\n\\fBdivvy\\-run\\fR(1)\n");
	return man_write(folder, &conf_page, &out, err);
}
