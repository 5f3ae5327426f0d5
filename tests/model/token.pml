/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token between the daemon and two programs on one device, step by step as in src/hook and
 * src/agent, names as in src/wire/page.h: gate store, membarrier, in_launch, markers (issued, done),
 * flush, want and futex wake-up, overlap, bounded drain, co-run; a program dies or freezes anywhere.
 *
 * Checked: (1) no submission while the other's work is on the device, but within a declared overlap
 * or co-run; (2) nobody sleeps for ever while the gate could open: an end state in which a healthy
 * program still waits is invalid; there is no timeout in the futex wait here, though the real one has
 * one; (3) so a dead or frozen holder is always passed.
 *
 * The store of in_launch waits in the processor's store buffer until the program's next release, or a
 * membarrier: the latest that x86 allows; earlier, the daemon only sees more. Planted defects: -DBUG_LOST_WAKEUP, -DBUG_MISSING_BARRIER,
 * -DBUG_DEAD_HOLDER; run finds each.
 */
#define N 2	   /* programs */
#define LAUNCHES(i) (2 - (i)) /* two of one, one of the other: each waits for the other once */
#define DEPTH 1	   /* submissions in flight at most: the window */
#define NONE N
#define OTHER(i) (1 - (i))

#define CLOSED 0
#define OPEN 1

/* Something that look() would act on; it does not spin here. */
#define can_see(i) ((unflushed[i] && !flush[i]) || (!unflushed[i] && !pending[i]) || \
	(!unflushed[i] && waiting[OTHER(i)] && holder == NONE && !corun && !drains[OTHER(i)]))

/* down, written by the daemon */
bit gate[N];
bool flush[N];

/* up, as the daemon sees it */
bool in_launch[N];
bool unflushed[N]; /* sum(submitted) != flushed */
bool want[N];

/* up, in the program's store buffer: in_launch = 1, not yet in memory */
bool buffered[N];

/* markers: issued != done */
bool pending[N];

/* the device: submissions of each program that have not ended */
byte queue[N];

/* the kernel */
bool sleeps[N];	  /* in futex_wait(gate) */
bool dead[N], frozen[N];
bool hup[N];	  /* pidfd readable */
byte faults = 0;  /* one is enough: two programs */

bool message[N]; /* WANT, on the daemon's socket */

/* the daemon */
byte holder = NONE;
bool corun = false;   /* declared: both gates may be open, work may mix */
bool overlap = false; /* declared: the next was opened for the end of the drain */
bool waiting[N], drains[N], gone[N];

/* A store of the program reaches memory after the ones before it. */
inline drain_buffer(i)
{
	if
	:: buffered[i] -> in_launch[i] = true; buffered[i] = false
	:: else
	fi
}

/* Anywhere between two steps a program may be killed or stopped. */
inline may_fail(i)
{
	if
	:: true
	:: faults == 0 -> d_step { faults++; dead[i] = true; hup[i] = true; sleeps[i] = false };
		goto ends
	:: faults == 0 -> d_step { faults++; frozen[i] = true };
		goto ends
	fi
}

/* Marks what is unmarked: flushed = sum(submitted). */
inline flush_own(i)
{
	if
	:: unflushed[i] -> pending[i] = true; unflushed[i] = false
	:: else
	fi
}

inline marker_pass(i)
{
	d_step { flush_own(i) }
}

inline helper_pass(i)
{
	d_step { flush[i] = false; flush_own(i) }
}

proctype program(byte i)
{
	byte launches = 0;
	bit seen;

	do
	:: launches == LAUNCHES(i) -> break
	:: else ->
		buffered[i] = true; /* in_launch = 1; a compiler barrier only */
		seen = gate[i];
		may_fail(i);
		if
		:: seen == OPEN && queue[i] < DEPTH ->
			atomic { /* the driver call */
				assert(queue[OTHER(i)] == 0 || dead[OTHER(i)] || corun || overlap);
				queue[i]++;
				launches++
			};
			may_fail(i);
			d_step { /* submitted++, in_launch = 0: releases, in order */
				drain_buffer(i);
				unflushed[i] = true;
				in_launch[i] = false
			};
			if /* a marker every so many submissions, and at the end of a run of them */
			:: launches < LAUNCHES(i)
			:: marker_pass(i)
			fi
		:: seen == OPEN && queue[i] == DEPTH -> /* the window: a marker is waited for */
			d_step { drain_buffer(i); in_launch[i] = false; flush_own(i) };
			queue[i] < DEPTH || gate[i] == CLOSED
		:: seen == CLOSED ->
			d_step { drain_buffer(i); in_launch[i] = false; flush_own(i) };
			d_step { want[i] = true; message[i] = true }; /* WANT, if want was 0 */
			may_fail(i);
			do
			:: gate[i] == OPEN -> break
			:: else ->
#ifdef BUG_LOST_WAKEUP
				sleeps[i] = true; /* sleeps though the gate has opened meanwhile */
#else
				atomic { /* futex_wait compares in the kernel */
					if
					:: gate[i] == CLOSED -> sleeps[i] = true
					:: else
					fi
				};
#endif
				!sleeps[i];
				may_fail(i)
			od;
			want[i] = false
		fi
	od;
ends:
	skip
}

/* The program's helper thread: honours a flush while the program's own threads are elsewhere. */
proctype helper()
{
end:
	do
	:: flush[0] && !dead[0] && !frozen[0] && !in_launch[0] -> helper_pass(0)
	:: flush[1] && !dead[1] && !frozen[1] && !in_launch[1] -> helper_pass(1)
	od
}

/* Ends submissions in any order among programs; writes done after all before the marker. */
proctype device()
{
end:
	do
	:: queue[0] > 0 -> queue[0]--
	:: queue[1] > 0 -> queue[1]--
	:: d_step { queue[0] == 0 && pending[0] -> pending[0] = false } /* done = issued */
	:: d_step { queue[1] == 0 && pending[1] -> pending[1] = false }
	od
}

inline open(i)
{
	d_step { gate[i] = OPEN; holder = i; waiting[i] = false };
	sleeps[i] = false /* futex_wake */
}

/* gate = CLOSED, then what makes every thread's in_launch visible, or the closed gate to it. */
inline close(i)
{
	gate[i] = CLOSED;
	d_step {
#ifndef BUG_MISSING_BARRIER
		drain_buffer(0); /* membarrier(GLOBAL_EXPEDITED) */
		drain_buffer(1);
#endif
		drains[i] = true;
		if
		:: holder == i -> holder = NONE
		:: else
		fi
	}
}

inline is_drained(i)
{
	d_step {
		drains[i] = false;
		overlap = false;
		waiting[i] = waiting[i] || (want[i] && !gone[i]);
		corun = corun && gate[i] == OPEN
	}
}

inline removed(i)
{
	d_step {
		gate[i] = CLOSED;
		drains[i] = false;
		waiting[i] = false;
		overlap = false;
		if
		:: holder == i -> holder = (gate[OTHER(i)] == OPEN -> OTHER(i) : NONE)
		:: else
		fi
	}
}

/*
 * Drained: in_launch is read first (the guard of the caller), then the rest. Once the gate is closed
 * and the barrier passed, a thread that is in no launch begins none.
 */
inline look(i)
{
	if
	:: unflushed[i] && !flush[i] -> flush[i] = true /* down.flush, MSG_FLUSH */
	:: !unflushed[i] && !pending[i] -> is_drained(i)
	:: !unflushed[i] && pending[i] && waiting[OTHER(i)] && holder == NONE && !corun &&
		!drains[OTHER(i)] -> /* the rest is short: the next may be opened for it */
		overlap = true;
		open(OTHER(i))
	:: true
	fi
}

proctype daemon()
{
	byte i;

end:
	do
	:: message[0] -> d_step { message[0] = false; waiting[0] = !gone[0] && gate[0] == CLOSED }
	:: message[1] -> d_step { message[1] = false; waiting[1] = !gone[1] && gate[1] == CLOSED }

	/* Nobody has the device: the next. */
	:: holder == NONE && waiting[0] && !drains[0] && !drains[1] -> open(0)
	:: holder == NONE && waiting[1] && !drains[0] && !drains[1] -> open(1)

	/* A turn is over, or the holder idle: any time while another waits. */
	:: holder != NONE && waiting[OTHER(holder)] && !corun && !drains[OTHER(holder)] ->
		i = holder;
		close(i)

	/* Watching drains. */
	:: drains[0] && gate[0] == CLOSED && !in_launch[0] && can_see(0) -> look(0)
	:: drains[1] && gate[1] == CLOSED && !in_launch[1] && can_see(1) -> look(1)

#ifndef BUG_DEAD_HOLDER
	/* A drain passes its bound: the next co-runs, and the other's gate opens again. */
	:: drains[0] && holder == NONE && waiting[1] && !drains[1] && !gone[0] ->
		corun = true; drains[0] = false; open(0); open(1)
	:: drains[1] && holder == NONE && waiting[0] && !drains[0] && !gone[1] ->
		corun = true; drains[1] = false; open(1); open(0)
	/* An overlap passes it too. */
	:: overlap && (drains[0] || drains[1]) -> d_step { overlap = false; corun = true }

	/* A process is gone: its token passes at once. */
	:: hup[0] && !gone[0] -> gone[0] = true; removed(0)
	:: hup[1] && !gone[1] -> gone[1] = true; removed(1)
#endif
	od
}

init
{
	atomic {
		run device();
		run daemon();
		run program(0);
		run program(1);
		run helper()
	}
}
