/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin: keeps a device busy with kernels of a known length, in the ways of real programs: one or
 * several streams, graphs, cooperative launches, mixed lengths, bursts, with or without waiting.
 * Without --sync-every it stays at most two batches ahead of the device, as a training loop does.
 *
 * One thread. The last line on stdout is one JSON object of submitted and completed work; shares
 * and busy time come from the device's own trace.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spin-kernel.h"

#define STREAMS_MAX 1024u
#define NSEC_PER_SEC UINT64_C(1000000000)

/* name, argument, default, help */
#define OPTIONS(X) \
	X(kernel_us, "kernel-us", "N", 1000, "length of a kernel in microseconds") \
	X(duration_ms, "duration-ms", "N", 0, "end after this time; see --duration") \
	X(streams, "streams", "N", 1, "streams, used in turn: 1 to 1024") \
	X(graphs, "graphs", "N", 0, "submit graphs of that many kernels instead of kernels") \
	X(burst_on, "burst-on", "MS", 0, "work for so long, then pause for --burst-off") \
	X(burst_off, "burst-off", "MS", 0, "length of the pause between bursts") \
	X(batch, "batch", "N", 0, "submissions between two events (0: 10 ms of kernels)") \
	X(sync_every, "sync-every", "N", 0, "wait for the device after that many submissions") \
	X(count, "count", "N", 0, "end after that many submissions (0: no end)") \
	X(host_us, "host-us", "N", 0, "processor microseconds to burn for each ms of kernels") \
	X(blocks, "blocks", "N", 0, "blocks of a kernel (0: one for each multiprocessor)") \
	X(memory, "memory", "MIB", 0, "device memory to hold meanwhile") \
	X(device, "device", "N", 0, "device, as the driver counts them") \
	X(seed, "seed", "N", 1, "seed of the mixed lengths and of the first pause")

#define FLAGS(X) \
	X(cooperative, "cooperative", "launch cooperatively") \
	X(mixed, "mixed", "lengths from a fiftieth to twenty times --kernel-us, same mean order") \
	X(alike, "alike", "with --mixed: nothing but the length tells kernels apart") \
	X(print_rate, "print-rate", "print kernels per second once a second") \
	X(quiet, "quiet", "no summary at the end")

struct settings {
#define X(field, name, arg, value, help) uint64_t field;
	OPTIONS(X)
#undef X
#define X(field, name, help) bool field;
	FLAGS(X)
#undef X
};

struct work {
	const struct settings *set;
	cu_handle function;
	cu_handle stream[STREAMS_MAX];
	cu_handle graph; /* executable, with --graphs */
	cu_handle event[2];
	unsigned int blocks;
	uint64_t random;
	uint64_t submissions;
	uint64_t kernels;
	uint64_t kernel_ns; /* device time submitted */
};

static volatile sig_atomic_t stop;

static void on_signal(int signo)
{
	(void)signo;
	stop = 1;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};

	nanosleep(&t, NULL);
}

/* xorshift64*: a seed gives the same sequence on every machine. */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

static void usage(FILE *f)
{
	fputs("usage: spin [OPTION...]\nKeeps a CUDA device busy with kernels of a known "
	      "length.\n\n"
	      "  --duration=SECONDS     end after this time (default: no end)\n",
		f);
#define X(field, name, arg, value, help) \
	fprintf(f, "  --%-20s %s (default %d)\n", name "=" arg, help, value);
	OPTIONS(X)
#undef X
#define X(field, name, help) fprintf(f, "  --%-20s %s\n", name, help);
	FLAGS(X)
#undef X
}

static uint64_t parse_number(const char *name, const char *text)
{
	char *end = NULL;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-') {
		fprintf(stderr, "spin: --%s '%s': a whole number is needed\n", name, text);
		exit(2);
	}
	return value;
}

static uint64_t parse_duration_ms(const char *text)
{
	char *end = NULL;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value < 1e9)) {
		fprintf(stderr, "spin: --duration '%s': seconds are needed, such as 12 or 0.5\n",
			text);
		exit(2);
	}
	return (uint64_t)(value * 1000.0);
}

static void parse(int argc, char **argv, struct settings *set)
{
	enum { DURATION = 1000, HELP };
	static const char *const name[] = {
#define X(field, name, arg, value, help) name,
		OPTIONS(X)
#undef X
	};
	uint64_t *number[] = {
#define X(field, name, arg, value, help) &set->field,
		OPTIONS(X)
#undef X
	};
	bool *flag[] = {
#define X(field, name, help) &set->field,
		FLAGS(X)
#undef X
	};
	static const struct option table[] = {
#define X(field, name, arg, value, help) {name, required_argument, NULL, 1},
		OPTIONS(X)
#undef X
#define X(field, name, help) {name, no_argument, NULL, 2},
			FLAGS(X)
#undef X
				{"duration", required_argument, NULL, DURATION},
		{"help", no_argument, NULL, HELP},
		{0},
	};
	const size_t n = sizeof(number) / sizeof(number[0]);
	int c, index = 0;

	while ((c = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (c == 1)
			*number[index] = parse_number(name[index], optarg);
		else if (c == 2)
			*flag[(size_t)index - n] = true;
		else if (c == DURATION)
			set->duration_ms = parse_duration_ms(optarg);
		else
			usage(c == HELP ? stdout : stderr), exit(c == HELP ? 0 : 2);
	}
	if (optind < argc) {
		fprintf(stderr, "spin: '%s': no operand is expected\n", argv[optind]);
		exit(2);
	}
	if (!set->streams || set->streams > STREAMS_MAX) {
		fprintf(stderr, "spin: --streams %" PRIu64 ": 1 to %u streams are possible\n",
			set->streams, STREAMS_MAX);
		exit(2);
	}
}

static void launch(struct work *w, cu_handle stream, uint64_t ns, unsigned int threads)
{
	void *params[] = {&ns};
	cu_result r;

	if (w->set->cooperative)
		r = cuda.launch_cooperative(
			w->function, w->blocks, 1, 1, threads, 1, 1, 0, stream, params);
	else
		r = cuda.launch(
			w->function, w->blocks, 1, 1, threads, 1, 1, 0, stream, params, NULL);
	cuda_check(r, "launch");
}

/*
 * Lengths of a mixed program, in 1/1000 of --kernel-us: many short kernels, few long ones. Each
 * length has a shape of its own, as in a program of different kernels, unless --alike is given.
 */
static uint64_t next_kernel_ns(struct work *w, unsigned int *ret_threads)
{
	static const uint64_t mix[] = {
		20, 20, 20, 50, 100, 200, 500, 1000, 1000, 2000, 5000, 20000};
	const uint64_t ns = w->set->kernel_us * 1000;
	uint64_t i;

	*ret_threads = 32;
	if (!w->set->mixed)
		return ns;
	i = random_next(&w->random) % (sizeof(mix) / sizeof(mix[0]));
	if (!w->set->alike)
		*ret_threads += 32 * (unsigned int)i;
	return ns * mix[i] / 1000;
}

static void make_graph(struct work *w)
{
	cu_handle graph = NULL;

	cuda_check(
		cuda.stream_begin_capture(w->stream[0], CU_CAPTURE_MODE_THREAD_LOCAL), "capture");
	for (uint64_t i = 0; i < w->set->graphs; i++)
		launch(w, w->stream[0], w->set->kernel_us * 1000, 32);
	cuda_check(cuda.stream_end_capture(w->stream[0], &graph), "end of capture");
	cuda_check(cuda.graph_instantiate(&w->graph, graph, 0), "graph");
}

static void submit(struct work *w)
{
	cu_handle stream = w->stream[w->submissions % w->set->streams];

	if (w->graph) {
		cuda_check(cuda.graph_launch(w->graph, stream), "graph launch");
		w->kernels += w->set->graphs;
		w->kernel_ns += w->set->graphs * w->set->kernel_us * 1000;
	} else {
		unsigned int threads;
		uint64_t ns = next_kernel_ns(w, &threads);

		launch(w, stream, ns, threads);
		w->kernels++;
		w->kernel_ns += ns;
	}
	w->submissions++;
}

static void prepare(struct work *w, const struct settings *set)
{
	struct spin_kernel kernel;
	cu_pointer held = 0;

	spin_kernel_open("spin", (int)set->device, &kernel);
	if (set->memory)
		cuda_check(cuda.mem_alloc(&held, (size_t)set->memory << 20), "memory");
	w->set = set;
	w->function = kernel.function;
	w->blocks = set->blocks ? (unsigned int)set->blocks : kernel.blocks;
	w->random = set->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	for (uint64_t i = 0; i < set->streams; i++)
		cuda_check(cuda.stream_create(&w->stream[i], CU_STREAM_NON_BLOCKING), "stream");
	for (int i = 0; i < 2; i++)
		cuda_check(cuda.event_create(&w->event[i], CU_EVENT_DISABLE_TIMING), "event");
	if (set->graphs)
		make_graph(w);
}

static bool done(const struct work *w, uint64_t end_ns)
{
	return stop || (w->set->count && w->submissions >= w->set->count) ||
		(end_ns && now_ns() >= end_ns);
}

/* One batch; waits for the batch before the last, so that the device never runs dry. */
static void run_batch(struct work *w, uint64_t batch, uint64_t number, uint64_t end_ns)
{
	const struct settings *set = w->set;

	for (uint64_t i = 0; i < batch && !done(w, end_ns); i++) {
		submit(w);
		if (set->sync_every && w->submissions % set->sync_every == 0)
			cuda_check(cuda.ctx_synchronize(), "synchronise");
	}
	if (set->sync_every)
		return;
	if (number >= 2)
		cuda_check(cuda.event_synchronize(w->event[number % 2]), "event");
	cuda_check(cuda.event_record(w->event[number % 2],
			   w->stream[(w->submissions + set->streams - 1) % set->streams]),
		"event record");
}

/* Uses processor time of this thread, as a program that prepares data does between batches. */
static void burn(const struct work *w, uint64_t cpu_ns, uint64_t end_ns)
{
	const uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + cpu_ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until && !done(w, end_ns))
		;
}

static void pause_between(uint64_t ms, uint64_t end_ns)
{
	uint64_t until = now_ns() + ms * 1000000;

	cuda_check(cuda.ctx_synchronize(), "synchronise");
	if (end_ns && until > end_ns)
		until = end_ns;
	for (uint64_t now = now_ns(); now < until && !stop; now = now_ns())
		sleep_ns(until - now);
}

static void print_rate(const struct work *w, uint64_t *at_ns, uint64_t *kernels)
{
	const uint64_t now = now_ns();

	if (now - *at_ns < NSEC_PER_SEC)
		return;
	printf("%.0f kernels/s\n", (double)(w->kernels - *kernels) * 1e9 / (double)(now - *at_ns));
	fflush(stdout);
	*at_ns = now;
	*kernels = w->kernels;
}

static void run(struct work *w)
{
	const struct settings *set = w->set;
	const uint64_t each_us = set->kernel_us * (set->graphs ? set->graphs : 1);
	const uint64_t wished = set->batch ? set->batch : each_us ? 10000 / each_us : 256;
	const uint64_t batch = wished < 1 ? 1 : wished > 512 ? 512 : wished;
	const uint64_t begin = now_ns(),
		       end = set->duration_ms ? begin + set->duration_ms * 1000000 : 0;
	uint64_t burst = begin, rate_at = begin, rate_kernels = 0;

	if (set->burst_off && set->burst_on)
		pause_between(random_next(&w->random) % set->burst_off, end);
	for (uint64_t number = 0; !done(w, end); number++) {
		const uint64_t before_ns = w->kernel_ns;

		run_batch(w, batch, number, end);
		if (set->host_us)
			burn(w, (w->kernel_ns - before_ns) * set->host_us / 1000, end);
		if (set->burst_on && now_ns() - burst >= set->burst_on * 1000000) {
			pause_between(set->burst_off, end);
			burst = now_ns();
		}
		if (set->print_rate)
			print_rate(w, &rate_at, &rate_kernels);
	}
	cuda_check(cuda.ctx_synchronize(), "synchronise");
	if (!set->quiet)
		printf("{\"pid\": %d, \"submissions\": %" PRIu64 ", \"kernels\": %" PRIu64
		       ", \"kernel_ns\": %" PRIu64 ", \"elapsed_ns\": %" PRIu64 "}\n",
			(int)getpid(), w->submissions, w->kernels, w->kernel_ns, now_ns() - begin);
}

int main(int argc, char **argv)
{
	static struct work w;
	struct settings set = {
#define X(field, name, arg, value, help) .field = value,
		OPTIONS(X)
#undef X
	};
	struct sigaction action = {.sa_handler = on_signal};

	parse(argc, argv, &set);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	prepare(&w, &set);
	run(&w);
	return 0;
}
