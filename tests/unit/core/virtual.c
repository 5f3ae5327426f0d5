/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine of virtual.h: a loop that jumps from event to event. Events are: a device ends a
 * kernel or a slice, a program wakes up, a message reaches the daemon, the daemon looks or decides.
 */
#include "virtual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "unit.h"

#define SLICE_NS (2 * MS)
#define QUEUE_ALONE_NS (16 * MS)
#define NEVER UINT64_MAX

static uint64_t late(struct vm *vm)
{
	return 30 * US + rand_below(&vm->rand, 70 * US);
}

/* When a program that is ready to run at `at` gets a processor. */
static uint64_t scheduled(struct vm *vm, uint32_t program, uint64_t at)
{
	const uint64_t period = 100 * MS, begin = program * 37 * MS;

	if (vm->host_late_ns && rand_below(&vm->rand, 2))
		at += rand_below(&vm->rand, vm->host_late_ns);
	if (vm->is_throttled && (at + begin) % period >= period / 2)
		at += period - (at + begin) % period;
	return at;
}

struct vm *vm_new(uint32_t devices, uint64_t switch_ns, uint64_t seed)
{
	struct vm *vm = calloc(1, sizeof(*vm));

	assert_non_null(vm);
	arbiter_config_init(&vm->config);
	vm->n_devices = devices;
	vm->switch_ns = switch_ns;
	vm->seed = seed;
	return vm;
}

void vm_add_mix(struct vm *vm, const struct vm_mix *mix, uint64_t kernel_ns)
{
	vm->n_programs = mix->n;
	for (uint32_t i = 0; i < mix->n; i++) {
		vm->program[i].request = mix->program[i].request;
		vm->program[i].limit = mix->program[i].limit;
		vm->program[i].kernel_ns = kernel_ns;
		vm->program[i].from_ns = i * 37 * MS;
	}
}

void vm_free(struct vm *vm)
{
	arbiter_free(vm->arbiter);
	free(vm);
}

/* ---- the device ---- */

static struct vm_kernel *head_of(struct vm *vm, uint32_t device, int program)
{
	return &vm->program[program].on[device].queue[vm->program[program].on[device].head];
}

/* Whether the running kernel spins: its partner's kernel of the same step has not begun. */
static bool is_spinning(struct vm *vm, uint32_t device, int program)
{
	const struct vm_kernel *kernel = head_of(vm, device, program);
	const struct vm_program *p = &vm->program[program];

	if (kernel->step == 0)
		return false;
	if (p->pattern == VM_PAIR)
		return p->on[1 - device].begun < kernel->step;
	return vm->program[p->partner].on[device].begun < kernel->step;
}

static bool has_other_work(struct vm *vm, uint32_t device, int program)
{
	for (uint32_t i = 0; i < vm->n_programs; i++)
		if ((int)i != program && vm->program[i].on[device].n)
			return true;
	return false;
}

static uint64_t device_next(struct vm *vm, uint32_t device)
{
	int running = vm->device[device].running;
	uint64_t from, at = NEVER;

	if (running < 0)
		return NEVER;
	from = MAX(vm->device[device].from, vm->now);
	if (!head_of(vm, device, running)->has_begun)
		return from;
	if (!is_spinning(vm, device, running))
		at = from + head_of(vm, device, running)->rest_ns;
	if (has_other_work(vm, device, running))
		at = MIN(at, MAX(vm->device[device].slice_end, from));
	return at;
}

static void record(struct vm *vm, uint32_t device, int program, uint64_t from, uint64_t to)
{
	struct vm_program *p = &vm->program[program];

	p->total_ns[device] += to - from;
	while (from < to) {
		uint64_t bin = from / VM_BIN_NS;
		uint64_t end = MIN(to, (bin + 1) * VM_BIN_NS);

		if (bin < VM_BINS)
			p->bin_ns[device][bin] += end - from;
		from = end;
	}
}

/* Lets time pass on a device without deciding anything. */
static void device_pass(struct vm *vm, uint32_t device, uint64_t to)
{
	int running = vm->device[device].running;
	uint64_t from = vm->device[device].from;
	struct vm_kernel *kernel;

	if (running < 0 || from >= to)
		return;
	kernel = head_of(vm, device, running);
	record(vm, device, running, from, to);
	vm->device[device].from = to;
	if (kernel->has_begun && !is_spinning(vm, device, running)) {
		kernel->rest_ns -= MIN(kernel->rest_ns, to - from);
		vm->program[running].on[device].queued_ns -= MIN(
			vm->program[running].on[device].queued_ns, to - from);
	}
}

static void device_switch(struct vm *vm, uint32_t device)
{
	int first = vm->device[device].running >= 0 ? vm->device[device].running
						    : vm->device[device].last;

	vm->device[device].running = -1;
	for (uint32_t k = 1; k <= vm->n_programs; k++) {
		int i = (int)(((uint32_t)(first + 1) + k - 1) % vm->n_programs);

		if (!vm->program[i].on[device].n)
			continue;
		vm->device[device].running = i;
		vm->device[device].from = vm->now;
		if (i != vm->device[device].last) {
			vm->device[device].from += vm->switch_ns;
			vm->device[device].switches++;
		}
		vm->device[device].slice_end = vm->device[device].from + SLICE_NS;
		vm->device[device].last = i;
		return;
	}
}

static void device_event(struct vm *vm, uint32_t device)
{
	int running = vm->device[device].running;
	struct vm_program *p = &vm->program[running];
	struct vm_kernel *kernel = head_of(vm, device, running);

	if (!kernel->has_begun) {
		kernel->has_begun = true;
		if (kernel->step)
			p->on[device].begun = kernel->step;
		return;
	}
	if (kernel->rest_ns == 0) {
		p->on[device].head = (p->on[device].head + 1) % VM_QUEUE;
		p->on[device].last_end = vm->now;
		if (--p->on[device].n == 0) {
			p->on[device].queued_ns = 0;
			if (p->is_waiting)
				p->wake_at = MIN(p->wake_at,
					scheduled(vm, (uint32_t)running, vm->now + late(vm) / 4));
			device_switch(vm, device);
			return;
		}
		if (vm->now < vm->device[device].slice_end || !has_other_work(vm, device, running))
			return;
	}
	device_switch(vm, device); /* end of a slice */
}

/* ---- programs ---- */

static void submit(struct vm *vm, uint32_t program, uint32_t device, uint64_t ns, uint64_t step)
{
	struct vm_program *p = &vm->program[program];
	uint32_t at = (p->on[device].head + p->on[device].n) % VM_QUEUE;

	assert_true(p->on[device].n < VM_QUEUE);
	/* A context that is alone on the device gets a new slice each time its slice ends. */
	if (vm->device[device].running >= 0 && vm->device[device].running != (int)program &&
		!has_other_work(vm, device, vm->device[device].running))
		while (vm->device[device].slice_end <= vm->now)
			vm->device[device].slice_end += SLICE_NS;
	p->on[device].queue[at] = (struct vm_kernel){.rest_ns = ns, .step = step};
	p->on[device].n++;
	p->on[device].queued_ns += ns;
	p->on[device].has_submitted = true;
	p->on[device].longest_ns = MAX(p->on[device].longest_ns, ns);
	if (vm->device[device].running < 0)
		device_switch(vm, device);
}

/* False if the gate is closed; the program's message then reaches the daemon later. */
static bool pass_gate(struct vm *vm, uint32_t program, uint32_t device)
{
	struct vm_program *p = &vm->program[program];

	if (p->on[device].is_open)
		return true;
	if (!p->on[device].is_blocked) {
		p->on[device].is_blocked = true;
		p->want_at[device] = vm->now + 5 * US + rand_below(&vm->rand, 20 * US);
	}
	p->wake_at = NEVER; /* until the gate opens */
	return false;
}

/* The hook's in-flight window: how long until the next kernel may be submitted; 0 is now. */
static uint64_t window_wait(const struct vm_program *p, uint32_t device, uint64_t ns)
{
	uint64_t queued = p->on[device].queued_ns;
	uint64_t window = p->on[device].window_us ? p->on[device].window_us * US : QUEUE_ALONE_NS;
	uint64_t ahead = MIN(window / 2, 300 * US);

	/*
	 * A window above 2 ms is for a busy host, which wakes programs late. The program then
	 * submits a long kernel earlier.
	 */
	if (window > 2 * MS)
		ahead = MAX(ahead, (window - 2 * MS) / 2);
	if (p->on[device].n == 0 || queued + ns <= window)
		return p->on[device].n < VM_QUEUE - 1 ? 0 : ns;
	if (ns > window)
		return queued < ahead ? 0 : queued - ahead + US;
	return MIN(queued + ns - window, queued > ahead ? queued - ahead + US : 1);
}

static uint64_t next_kernel(struct vm *vm, const struct vm_program *p)
{
	static const uint64_t mixed[] = {20 * US, 20 * US, 20 * US, 50 * US, 100 * US, 200 * US,
		500 * US, 1 * MS, 1 * MS, 2 * MS, 5 * MS, 20 * MS};

	return p->kernel_ns ? p->kernel_ns
			    : mixed[rand_below(&vm->rand, sizeof(mixed) / sizeof(mixed[0]))];
}

static bool is_idle(const struct vm_program *p)
{
	return p->on[0].n == 0 && p->on[1].n == 0;
}

/* Begins the next burst or request, or sets wake_at to its begin. */
static bool next_request(struct vm *vm, struct vm_program *p)
{
	if (p->is_waiting) {
		if (!is_idle(p)) {
			p->wake_at = NEVER; /* the end of the last kernel wakes the program */
			return false;
		}
		if (p->latency && p->requests < p->latency_max)
			p->latency[p->requests] = vm->now - p->arrived_at;
		p->requests++;
		p->is_waiting = false;
		if (p->pattern == VM_DUTY)
			p->arrived_at += p->period_ns;
		else if (p->pattern == VM_POISSON)
			p->arrived_at += (uint64_t)(-log(1.0 - rand_unit(&vm->rand)) *
				(double)p->period_ns);
		else
			p->arrived_at = vm->now + 20 * US;
		if (p->pattern == VM_DUTY)
			p->arrived_at = MAX(p->arrived_at, vm->now);
		if (p->arrived_at > vm->now) {
			p->wake_at = p->arrived_at;
			return false;
		}
	}
	if (p->budget_ns == 0)
		p->budget_ns = p->busy_ns;
	return true;
}

static void run_stream(struct vm *vm, uint32_t program, uint32_t device)
{
	struct vm_program *p = &vm->program[program];

	for (;;) {
		uint64_t ns = next_kernel(vm, p), wait;

		if (p->pattern == VM_DUTY || p->pattern == VM_POISSON || p->pattern == VM_CLOSED) {
			if (!p->budget_ns && !next_request(vm, p))
				return;
			ns = MIN(ns, p->budget_ns);
		}
		if (!pass_gate(vm, program, device))
			return;
		wait = window_wait(p, device, ns);
		if (wait) {
			p->wake_at = scheduled(
				vm, program, vm->now + wait + rand_below(&vm->rand, 10 * US));
			return;
		}
		if (p->pattern == VM_RANK) {
			if (p->step > p->on[device].begun + 2) { /* the program reads results */
				p->wake_at = vm->now + 50 * US;
				return;
			}
			submit(vm, program, device, ns, ++p->step);
			continue;
		}
		submit(vm, program, device, ns, 0);
		if (p->pattern == VM_BACKLOG)
			continue;
		p->budget_ns -= ns;
		if (p->budget_ns == 0) {
			p->is_waiting = true;
			p->wake_at = NEVER;
			return;
		}
	}
}

/* One thread: a kernel on device 0, and its partner on device 1. */
static void run_pair(struct vm *vm, uint32_t program)
{
	struct vm_program *p = &vm->program[program];

	for (;;) {
		uint32_t device = p->step % 2;
		uint64_t wait;

		if (!pass_gate(vm, program, device))
			return;
		wait = window_wait(p, device, p->kernel_ns);
		if (wait) {
			p->wake_at = vm->now + wait + rand_below(&vm->rand, 10 * US);
			return;
		}
		submit(vm, program, device, p->kernel_ns, p->step / 2 + 1);
		p->step++;
		p->steps = p->step / 2;
	}
}

static void program_event(struct vm *vm, uint32_t program)
{
	struct vm_program *p = &vm->program[program];

	p->wake_at = NEVER;
	if (p->until_ns && vm->now >= p->until_ns)
		return;
	if (!p->has_started) {
		p->has_started = true;
		p->arrived_at = vm->now;
	}
	if (p->pattern == VM_PAIR)
		run_pair(vm, program);
	else
		run_stream(vm, program, p->devices & 2 ? 1 : 0);
}

/* ---- the daemon ---- */

static void observe(struct vm *vm, uint32_t program, uint32_t device)
{
	struct vm_program *p = &vm->program[program];
	arbiter_id id = program + 1;

	if (p->on[device].is_blocked && !p->on[device].is_open && p->want_at[device] == NEVER)
		arbiter_want(vm->arbiter, id, device, true, vm->now);
	if (p->on[device].is_draining) {
		if (p->on[device].n) {
			arbiter_draining(
				vm->arbiter, id, device, p->on[device].queued_ns, 0, vm->now);
		} else {
			p->on[device].is_draining = false;
			arbiter_drained(vm->arbiter, id, device, p->on[device].last_end, vm->now);
		}
	} else if (p->on[device].is_open) {
		arbiter_observe(vm->arbiter, id, device,
			p->on[device].n || p->on[device].has_submitted, p->on[device].longest_ns,
			p->on[device].queued_ns, vm->now);
		p->on[device].has_submitted = false;
	}
}

static void perform(struct vm *vm, const struct arbiter_action *action)
{
	struct vm_program *p = &vm->program[action->tenant - 1];
	uint32_t device = action->device;

	switch (action->type) {
	case ARBITER_OPEN:
		vm->grants++;
		p->on[device].is_open = true;
		p->on[device].is_draining = false;
		p->on[device].window_us = action->window_us;
		p->on[device].widest_us = MAX(p->on[device].widest_us, action->window_us);
		if (p->on[device].is_blocked) {
			p->on[device].is_blocked = false;
			p->wake_at = scheduled(vm, action->tenant - 1, vm->now + late(vm));
		}
		break;
	case ARBITER_CLOSE:
		p->on[device].is_open = false;
		p->on[device].is_draining = true;
		break;
	case ARBITER_WINDOW: p->on[device].window_us = action->window_us; break;
	}
}

static void daemon_event(struct vm *vm)
{
	struct arbiter_action actions[16];
	uint64_t next = NEVER;
	size_t n;
	bool drains = false, watches = false;

	for (uint32_t i = 0; i < vm->n_programs; i++)
		for (uint32_t d = 0; d < vm->n_devices; d++) {
			if (vm->program[i].want_at[d] <= vm->now) {
				vm->program[i].want_at[d] = NEVER;
				if (vm->program[i].on[d].is_blocked)
					arbiter_want(vm->arbiter, i + 1, d, true, vm->now);
			}
			observe(vm, i, d);
		}
	do {
		n = arbiter_step(vm->arbiter, vm->now, actions, 16, &next);
		for (size_t i = 0; i < n; i++)
			perform(vm, &actions[i]);
		for (size_t i = 0; i < n; i++) /* if nothing is in flight, the drain ends at once */
			if (actions[i].type == ARBITER_CLOSE)
				observe(vm, actions[i].tenant - 1, actions[i].device);
	} while (n);
	for (uint32_t d = 0; d < vm->n_devices; d++) {
		watches |= arbiter_watches(vm->arbiter, d);
		for (uint32_t i = 0; i < vm->n_programs; i++)
			drains |= vm->program[i].on[d].is_draining;
	}
	vm->daemon_at = next == NEVER ? NEVER : MAX(next, vm->now) + late(vm);
	vm->look_at = vm->now + (drains ? 100 * US : watches ? 250 * US : 10 * MS) + late(vm) / 2;
}

/* ---- the loop ---- */

static uint64_t next_event(struct vm *vm)
{
	uint64_t at = MIN(vm->daemon_at, vm->look_at);

	for (uint32_t d = 0; d < vm->n_devices; d++)
		at = MIN(at, device_next(vm, d));
	for (uint32_t i = 0; i < vm->n_programs; i++) {
		at = MIN(at, vm->program[i].wake_at);
		for (uint32_t d = 0; d < vm->n_devices; d++)
			if (vm->program[i].want_at[d] != NEVER)
				at = MIN(at, vm->program[i].want_at[d] + 20 * US);
	}
	return at;
}

static void setup(struct vm *vm)
{
	vm->rand = rand_seeded(vm->seed);
	assert_ok(arbiter_new(&vm->config, vm->n_devices, &vm->arbiter, NULL));
	for (uint32_t d = 0; d < vm->n_devices; d++) {
		vm->device[d].running = -1;
		vm->device[d].last = -1;
	}
	for (uint32_t i = 0; i < vm->n_programs; i++) {
		struct vm_program *p = &vm->program[i];
		struct spec spec;

		spec_init(&spec);
		assert_ok(spec_set(&spec, "request", p->request ? p->request : "0.1", NULL));
		if (p->limit)
			assert_ok(spec_set(&spec, "limit", p->limit, NULL));
		if (p->class)
			assert_ok(spec_set(&spec, "class", p->class, NULL));
		assert_ok(spec_finish(&spec, NULL));
		assert_ok(arbiter_add(
			vm->arbiter, i + 1, &spec, p->devices ? p->devices : 1, 0, NULL));
		p->wake_at = p->from_ns;
		for (uint32_t d = 0; d < VM_DEVICES; d++)
			p->want_at[d] = NEVER;
	}
}

void vm_run(struct vm *vm, uint64_t until_ns)
{
	setup(vm);
	while (vm->now < until_ns) {
		uint64_t at = MAX(next_event(vm), vm->now);
		bool wants = false, is_due[VM_DEVICES];

		for (uint32_t d = 0; d < vm->n_devices; d++)
			is_due[d] = device_next(vm, d) <= at;
		for (uint32_t d = 0; d < vm->n_devices; d++)
			device_pass(vm, d, at);
		vm->now = at;
		for (uint32_t d = 0; d < vm->n_devices; d++)
			if (is_due[d])
				device_event(vm, d);
		for (uint32_t i = 0; i < vm->n_programs; i++) {
			if (vm->program[i].wake_at <= at)
				program_event(vm, i);
			for (uint32_t d = 0; d < vm->n_devices; d++)
				wants |= vm->program[i].want_at[d] != NEVER &&
					vm->program[i].want_at[d] + 20 * US <= at;
		}
		if (wants || vm->daemon_at <= at || vm->look_at <= at)
			daemon_event(vm);
	}
}

/* ---- results ---- */

static uint64_t used_in(const struct vm *vm, uint32_t program, uint32_t bin, uint32_t bins)
{
	uint64_t sum = 0;

	for (uint32_t d = 0; d < vm->n_devices; d++)
		for (uint32_t i = 0; i < bins; i++)
			sum += vm->program[program].bin_ns[d][bin + i];
	return sum;
}

double vm_error_pp(const struct vm *vm, uint32_t program, uint32_t permille, uint32_t bins,
	uint64_t from_ns, uint64_t until_ns)
{
	double worst = 0;

	for (uint32_t bin = (uint32_t)(from_ns / VM_BIN_NS);
		bin + bins <= (uint32_t)(until_ns / VM_BIN_NS); bin++) {
		double share = (double)used_in(vm, program, bin, bins) /
			(double)((uint64_t)bins * VM_BIN_NS);
		double error = fabs(share * 100 - permille / 10.0);

		worst = error > worst ? error : worst;
	}
	return worst;
}

uint64_t vm_window_max_ns(
	const struct vm *vm, uint32_t program, uint32_t bins, uint64_t from_ns, uint64_t until_ns)
{
	uint64_t most = 0;

	for (uint32_t bin = (uint32_t)(from_ns / VM_BIN_NS);
		bin + bins <= (uint32_t)(until_ns / VM_BIN_NS); bin++)
		most = MAX(most, used_in(vm, program, bin, bins));
	return most;
}

double vm_share(
	const struct vm *vm, uint32_t program, uint32_t device, uint64_t from_ns, uint64_t until_ns)
{
	uint64_t sum = 0;

	for (uint64_t bin = from_ns / VM_BIN_NS; bin < until_ns / VM_BIN_NS; bin++)
		sum += vm->program[program].bin_ns[device][bin];
	return (double)sum / (double)(until_ns - from_ns);
}

double vm_busy(const struct vm *vm, uint32_t device, uint64_t from_ns, uint64_t until_ns)
{
	double sum = 0;

	for (uint32_t i = 0; i < vm->n_programs; i++)
		sum += vm_share(vm, i, device, from_ns, until_ns);
	return sum;
}
