/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spin model of how the daemon passes the token between two programs on one device. The steps are
 * those of src/hook and src/agent, and the names those of src/wire/page.h. The model has the gate,
 * membarrier, in_launch, markers (issued, done), flush, want, the futex wake-up, overlap, the
 * bounded drain and co-run. One program may die or freeze at any step.
 *
 * Spin checks: (1) No program submits while work of the other program is on the device, except
 * within a declared overlap or co-run. (2) No program sleeps for ever while its gate could open: an
 * end state in which a healthy program still waits is invalid. The futex wait here has no timeout,
 * unlike the real one. (3) The device never waits for a dead or frozen holder; this follows from
 * (2).
 *
 * The store of in_launch stays in the processor's store buffer until the program's next release or
 * a membarrier. No x86 processor makes the store visible later, and an earlier store only shows the
 * daemon more. -DBUG_LOST_WAKEUP, -DBUG_MISSING_BARRIER and -DBUG_DEAD_HOLDER each build a defect
 * into the model, and `run` checks that Spin finds each of them.
 */
#define N 2	   /* programs */
#define LAUNCHES(i) (2 - (i)) /* 2 and 1: enough that each program waits for the other once */
#define DEPTH 1	   /* the in-flight window: most submissions in flight */
#define NONE N
#define OTHER(i) (1 - (i))

#define CLOSED 0
#define OPEN 1

/* Whether look() has work to do, so that the model's daemon runs look() only then. */
#define can_see(i) ((unflushed[i] && !flush[i]) || (!unflushed[i] && !pending[i]) || \
	(!unflushed[i] && waiting[OTHER(i)] && holder == NONE && !corun && !drains[OTHER(i)]))

/* page_down, which the daemon writes */
bit gate[N];
bool flush[N];

/* page_up, as far as the program's stores have reached memory */
bool in_launch[N];
bool unflushed[N]; /* sum(submitted) != flushed: submissions without a marker */
bool want[N];

/* in_launch = 1 is in the program's store buffer and not yet in memory */
bool buffered[N];

/* a marker is issued and not yet reached: issued != done */
bool pending[N];

/* the device: submissions of each program that are not complete */
byte queue[N];

/* state that the kernel keeps */
bool sleeps[N];	  /* is in futex_wait(gate) */
bool dead[N], frozen[N];
bool hup[N];	  /* pidfd readable */
byte faults = 0;  /* at most one of the two programs fails */

bool message[N]; /* a message WANT is on the daemon's socket */

/* state of the daemon */
byte holder = NONE;
bool corun = false;   /* declared: both gates may be open at once */
bool overlap = false; /* declared: the next gate opened before the drain ended */
bool waiting[N], drains[N], gone[N];

/* Moves in_launch = 1 from the store buffer to memory, before any later store of the program. */
inline drain_buffer(i)
{
	if
	:: buffered[i] -> in_launch[i] = true; buffered[i] = false
	:: else
	fi
}

/* A program may be killed or stopped between any two steps. */
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

/* Issues a marker after unmarked submissions: flushed = sum(submitted). */
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
		buffered[i] = true; /* in_launch = 1: the store may be delayed */
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
			d_step { /* submitted++, then in_launch = 0: release stores */
				drain_buffer(i);
				unflushed[i] = true;
				in_launch[i] = false
			};
			if /* issues a marker now or later, but always after the last submission */
			:: launches < LAUNCHES(i)
			:: marker_pass(i)
			fi
		:: seen == OPEN && queue[i] == DEPTH -> /* the window is full: waits for the device */
			d_step { drain_buffer(i); in_launch[i] = false; flush_own(i) };
			queue[i] < DEPTH || gate[i] == CLOSED
		:: seen == CLOSED ->
			d_step { drain_buffer(i); in_launch[i] = false; flush_own(i) };
			d_step { want[i] = true; message[i] = true }; /* sends WANT, if want was 0 */
			may_fail(i);
			do
			:: gate[i] == OPEN -> break
			:: else ->
#ifdef BUG_LOST_WAKEUP
				sleeps[i] = true; /* the defect: the gate may have opened */
#else
				atomic { /* the kernel compares the gate before the sleep */
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

/* The program's helper thread: obeys a flush while the program's own threads do other work. */
proctype helper()
{
end:
	do
	:: flush[0] && !dead[0] && !frozen[0] && !in_launch[0] -> helper_pass(0)
	:: flush[1] && !dead[1] && !frozen[1] && !in_launch[1] -> helper_pass(1)
	od
}

/*
 * Completes submissions of different programs in any order. A marker writes `done` after all
 * earlier submissions.
 */
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

/*
 * Closes the gate. After the barrier, the daemon sees a thread's in_launch, or the thread sees
 * CLOSED.
 */
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
 * Looks at a draining gate. The guard in daemon() reads in_launch before look() reads the counters.
 * After the gate's close and the barrier, a thread that is not in a launch begins none.
 */
inline look(i)
{
	if
	:: unflushed[i] && !flush[i] -> flush[i] = true /* down.flush, MSG_FLUSH */
	:: !unflushed[i] && !pending[i] -> is_drained(i)
	:: !unflushed[i] && pending[i] && waiting[OTHER(i)] && holder == NONE && !corun &&
		!drains[OTHER(i)] -> /* little work is left, so the next gate may open */
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

	/* No program holds the token: opens the gate of the next program. */
	:: holder == NONE && waiting[0] && !drains[0] && !drains[1] -> open(0)
	:: holder == NONE && waiting[1] && !drains[0] && !drains[1] -> open(1)

	/* The turn ends, or the holder is idle: possible at any time while the other waits. */
	:: holder != NONE && waiting[OTHER(holder)] && !corun && !drains[OTHER(holder)] ->
		i = holder;
		close(i)

	/* Looks at a gate that drains. */
	:: drains[0] && gate[0] == CLOSED && !in_launch[0] && can_see(0) -> look(0)
	:: drains[1] && gate[1] == CLOSED && !in_launch[1] && can_see(1) -> look(1)

#ifndef BUG_DEAD_HOLDER
	/* A drain exceeds its bound: the gate opens again, and the next program co-runs. */
	:: drains[0] && holder == NONE && waiting[1] && !drains[1] && !gone[0] ->
		corun = true; drains[0] = false; open(0); open(1)
	:: drains[1] && holder == NONE && waiting[0] && !drains[0] && !gone[1] ->
		corun = true; drains[1] = false; open(1); open(0)
	/* An overlap exceeds the bound: it becomes a co-run. */
	:: overlap && (drains[0] || drains[1]) -> d_step { overlap = false; corun = true }

	/* A process has died: the token passes to the other program at once. */
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
