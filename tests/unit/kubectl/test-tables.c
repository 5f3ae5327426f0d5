/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that each command's table is valid and makes its man page. */
#include "../unit.h"

#include "kubectl/kubectl-commands.h"

static void tables_are_consistent(void **state)
{
	for (size_t i = 0; cli_commands[i]; i++) {
		const struct cli_command *c = cli_commands[i];
		_cleanup_buf_ struct buf man = BUF_INIT(1 << 20);
		size_t n = 0;

		assert_ptr_equal(cli_command_find(c->name), c);
		assert_non_null(c->run);
		assert_true(strlen(c->summary) <= 79 && strlen(c->text) > 20);
		for (; c->options[n].name; n++) {
			const struct option_row *o = &c->options[n];

			assert_true(o->value || (!o->is_maybe && !o->choices));
			assert_int_not_equal(o->letter, 'h');
			for (size_t j = 0; j < n; j++) {
				assert_string_not_equal(o->name, c->options[j].name);
				assert_true(!o->letter || o->letter != c->options[j].letter);
			}
		}
		assert_true(n <= CLI_OPTIONS_MAX);
		cli_man(c, &man);
		assert_contains(buf_text(&man), "KUBECTL\\-DIVVY\\-");
		assert_contains(buf_text(&man), ".SH EXIT STATUS");
	}
}

UNIT_MAIN(UNIT(tables_are_consistent))
