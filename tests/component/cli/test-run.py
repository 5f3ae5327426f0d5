#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy run: the program keeps its pid, signals and exit code; the daemon starts on demand and
exits when idle. Tests --wait, --dry-run, --container and --simulate."""

import fcntl
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import time

from rig import BUILD, DIVVY, DIVVYD, SPIN, Rig, alive, main, patience, refused, wait_for

WISH = ("--request", "0.2", "--memory", "10%", "--quiet")


def exit_code_and_pid_are_the_programs():
    with Rig() as rig:
        for code in (0, 1, 42, 125):
            assert rig.divvy("run", *WISH, "--", "sh", "-c", f"exit {code}").returncode == code
        child = rig.run(*WISH, "--", "sh", "-c", "echo $$; exec cat /proc/self/stat")
        out, _ = child.communicate()
        assert int(out.split()[0]) == child.pid, out
        child = rig.run(*WISH, "--", "sh", "-c", "kill -9 $$")
        child.communicate()
        assert child.returncode == -signal.SIGKILL


def signals_reach_the_program():
    with Rig() as rig:
        child = rig.run(*WISH, "--", "sh", "-c", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done")
        assert child.stdout.readline() == "up\n"
        child.terminate()
        assert child.wait(patience()) == 7


def options_end_at_the_program():
    with Rig() as rig:
        done = rig.divvy("run", *WISH, "printf", "%s|", "--limit", "-x", "--")
        assert done.stdout == "--limit|-x|--|", done.stdout


def the_program_gets_its_environment():
    with Rig() as rig:
        done = rig.divvy("run", *WISH, "--", "env", env={"KEPT": "yes"})
        env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        assert env["KEPT"] == "yes"
        assert len(env["DIVVY_TENANT"]) == 32 and env["DIVVY_ABSENT"] == "closed"
        assert env["DIVVY_SOCKET"] == os.path.join(rig.dir, "divvyd.sock")
        for library in env["LD_PRELOAD"].split(":"):
            assert library.startswith("/") and os.path.exists(library)
        # Inside another divvy run: LD_PRELOAD has each library once, and the user's own libraries
        # after them.
        own = os.path.join(BUILD, "src/simgpu/libnvidia-ml.so.1")
        for before in (own, env["LD_PRELOAD"] + " " + own, f"/x/libdivvy-nvml.so::{own}:/x/libdivvy-cuda.so"):
            done = rig.divvy("run", *WISH, "--dry-run", "--", "true", env={"LD_PRELOAD": before})
            assert f"LD_PRELOAD={env['LD_PRELOAD']}:{own}\n" in done.stdout, done.stdout
        # The program gets only the three standard descriptors.
        done = rig.divvy("run", *WISH, "--", "ls", "/proc/self/fd")
        assert done.stdout.split() == ["0", "1", "2", "3"], done.stdout  # 3 is ls's own


def the_tenant_ends_with_the_program():
    with Rig() as rig:
        child = rig.spin("short", "--request", "0.5", "--quiet")
        tenant = rig.tenant("short")
        assert tenant["pid"] == child.pid and tenant["spec"]["request_permille"] == 500
        child.kill()
        wait_for(lambda: not rig.tenant("short"), "the tenant is removed")


def the_daemon_starts_on_demand_and_reports_a_simulation():
    with Rig(daemon=False) as rig:
        done = rig.divvy("run", "--request", "0.5", "--simulate", "2xH200-141Gi", "--", SPIN, "--count=20")
        assert done.returncode == 0, done.stderr
        assert "simulated" in done.stderr, done.stderr
        assert len(rig.json("devices", "-o", "json")) == 2
        refused(
            rig.divvy("run", "--request", "0.5", "--simulate", "3xH200-141Gi", "--", "true"),
            125,
            "3xH200-141Gi",
            "already simulates 2",
        )
        for spec in ("2xA100-141Gi", "2xH200-80Gi", "1xH200-141Gi,1xTest-1Gi"):
            refused(rig.divvy("run", "--request", "0.5", "--simulate", spec, "--", "true"), 125, spec, "already")
        assert rig.divvy("run", "--request", "0.5", "--simulate", "2xH200", "-q", "--", "true").returncode == 0
        # The daemon is not a child of the program, which has only its own children.
        done = rig.divvy("run", *WISH, "--", "sh", "-c", "cat /proc/$$/task/$$/children")
        assert done.returncode == 0


def preferred_anti_affinity_is_kept_while_possible():
    wish = ("--request", "0.2", "--memory", "5%", "--preferred-anti-affinity", "x")
    with Rig(simulate="2xH200-141Gi") as rig:
        for name in ("a", "b"):
            rig.spin(name, *wish, "--quiet")
        # Best fit alone would have put both on one device.
        assert {rig.tenant(name)["devices"][0]["index"] for name in ("a", "b")} == {0, 1}
        assert "apart" not in rig.divvy("why", "b").stdout
        done = rig.divvy("run", "--name", "c", *wish, "--", "true")
        said = "beside 1 tenant that preferred-anti-affinity 'x' would keep apart"
        assert done.returncode == 0 and f"divvy run: {said}\n" in done.stderr, done.stderr
        rig.spin("d", *wish, "--quiet")
        assert said in rig.divvy("why", "d").stdout
        rig.stop()
        rig.start()
        assert rig.tenant("a")["spec"]["preferred_anti_affinity"] == "x"
        refused(
            rig.divvy("run", "--request", "0.2", "--preferred-anti-affinity", "y" * 64, "--", "true"),
            125,
            "preferred-anti-affinity 'yyy",
            "1 to 63",
        )


def a_daemon_on_demand_keeps_no_descriptor_of_its_caller():
    with Rig(daemon=False) as rig:
        path = os.path.join(rig.dir, "callers")
        with open(path, "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(
                [DIVVY, "run", *WISH, "--", "true"],
                env=rig.env,
                pass_fds=[lock.fileno()],
                timeout=patience(),
                check=False,
            )
            assert done.returncode == 0
        with open(path, "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert "divvyd does not run" not in rig.divvy("version").stdout


def many_runs_start_one_daemon():
    with Rig(daemon=False) as rig:
        children = [rig.run("--request", "0.1", "--memory", "5%", "--", SPIN, "--count=50") for _ in range(6)]
        for child in children:
            _, err = child.communicate(timeout=patience())
            assert child.returncode == 0, err


def on_demand(rig):
    """The pid of the daemon that divvy run has started; starts one if needed."""
    done = rig.divvy("run", *WISH, "--", "true")
    assert done.returncode == 0, done
    return int(rig.divvy("version").stdout.split("pid ")[1].split(",")[0].split()[0])


def programs_continue_after_their_daemon_is_killed():
    with Rig(daemon=False) as rig:
        daemon = on_demand(rig)
        wish = ("--memory", "10%", "--quiet")
        args = ("--kernel-us=1000", "--count=5000")
        children = [
            rig.spin(name, "--request", request, *wish, args=args) for name, request in (("a", "0.5"), ("b", "0.3"))
        ]
        os.kill(daemon, signal.SIGKILL)
        said = 0
        for child in children:
            _, err = child.communicate(timeout=patience(120))
            assert child.returncode == 0, err
            assert err.count("divvyd has exited") <= 1, err
            said += "divvyd has exited" in err
        assert said, "a program that waited says that the daemon exited"


def the_next_run_restarts_a_killed_daemon():
    with Rig(daemon=False) as rig:
        killed = on_demand(rig)
        child = rig.spin("a", "--request", "0.5", "--memory", "10%", "--quiet")
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: not alive(killed), "the daemon is dead")
        assert on_demand(rig) != killed
        wait_for(
            lambda: [p["orphan"] for p in rig.tenant("a").get("processes", [])] == [False],
            "the program has registered again",
        )
        assert child.poll() is None


def a_run_waits_for_free_capacity():
    with Rig() as rig:
        first = rig.spin("first", "--request", "0.8", "--memory", "10%", "--quiet")
        waiter = rig.run("--request", "0.5", "--memory", "10%", "--wait", "--name", "waiter", "--", "echo", "in")
        line = waiter.stderr.readline()
        assert "waiting: request" in line and "0.2 free" in line, line
        assert waiter.poll() is None and not rig.tenant("waiter")
        first.kill()
        out, _ = waiter.communicate(timeout=patience())
        assert waiter.returncode == 0 and out == "in\n"


def a_wait_has_a_time_limit():
    with Rig() as rig:
        rig.spin("first", "--request", "0.8", "--memory", "10%", "--quiet")
        done = rig.divvy("run", "--request", "0.5", "--memory", "10%", "--quiet", "--wait=300ms", "--", "true")
        refused(done, 125, "no free capacity within 300ms", "request 0.5", "0.2 free")


def a_signal_ends_a_wait():
    with Rig() as rig:
        rig.spin("first", "--request", "0.8", "--memory", "10%", "--quiet")
        waiter = rig.run("--request", "0.5", "--memory", "10%", "--wait", "--", "true")
        assert "waiting" in waiter.stderr.readline()
        waiter.send_signal(signal.SIGINT)
        assert waiter.wait(patience()) == -signal.SIGINT
        assert [t["name"] for t in rig.json("ps", "-o", "json")] == ["first"]


def a_lost_device_gets_no_new_tenant():
    with Rig(simulate="2xTest-1Gi") as rig:
        spin = ("--", SPIN, "--duration=0.1")
        user = rig.spin("user", "--device", "0", *WISH)
        rig.set_faults("lost device=0")
        assert user.wait(patience()) == 1
        wait_for(lambda: rig.json("devices", "-o", "json")[0]["note"], "the daemon reports the lost device")
        assert "device 0: is lost: the driver cannot reach it any more" in rig.divvy("devices").stdout
        done = rig.divvy("doctor", "-o", "json")
        problem = [f for f in json.loads(done.stdout) if f["level"] == "problem"]
        assert done.returncode == 1, done
        assert len(problem) == 1 and "device 0" in problem[0]["what"] and "`reset`" in problem[0]["do"]
        for _ in range(2):  # best fit alone would choose device 0
            done = rig.divvy("run", "--request", "0.3", "--quiet", *spin)
            assert done.returncode == 0, done.stderr
        refused(
            rig.divvy("run", "--device", "0", *WISH, *spin),
            125,
            "is lost: the driver cannot reach it any more",
            "doctor",
        )
        refused(
            rig.divvy("run", "--request", "0.1", "--count", "2", "--quiet", *spin),
            125,
            "count 2: 1 device has capacity",
        )
        rig.set_faults("reset device=0 at=1ms")
        # Whoever asks for devices has the daemon ask the driver.
        wait_for(lambda: not rig.json("devices", "-o", "json")[0]["note"], "the device returns")
        done = rig.divvy("run", "--device", "0", *WISH, *spin)
        assert done.returncode == 0, done.stderr


def an_xid_of_the_device_ends_with_the_recovery():
    with Rig(simulate="1xTest-1Gi") as rig:

        def note():
            return rig.json("devices", "-o", "json")[0]["note"]

        user = rig.spin("user", *WISH)
        rig.set_faults("xid device=0 code=48 action=reset at=1ms")
        wait_for(lambda: note() == "had Xid 48 (double bit ECC error), which no program causes", "the device is faulty")
        refused(rig.divvy("run", *WISH, "--", "true"), 125, "had Xid 48")
        rig.set_faults("reset device=0 at=1ms")
        wait_for(lambda: not note(), "the device is healthy again")
        assert rig.divvy("run", *WISH, "--", "true").returncode == 0
        user.kill()
        assert "had Xid 48 (double bit ECC error), which no program causes" in user.communicate()[1]


def a_program_learns_of_the_xid_that_it_caused():
    with Rig(simulate="1xTest-1Gi") as rig:
        faulty, other = (rig.spin(name, *WISH) for name in ("faulty", "other"))
        rig.set_faults(f"xid device=0 code=31 pid={faulty.pid} at=1ms")
        line = faulty.stderr.readline()
        assert "this program caused Xid 31 (GPU memory page fault)" in line, line
        assert not rig.json("devices", "-o", "json")[0]["note"]
        for child in (faulty, other):
            child.kill()
        assert "Xid" not in other.communicate()[1]
        faulty.communicate()


def dry_run_prints_and_runs_nothing():
    with Rig() as rig:
        done = rig.divvy("run", *WISH, "--dry-run", "--", "python3", "a b.py")
        assert done.returncode == 0 and done.stdout.endswith("python3 'a b.py'\n"), done.stdout
        assert "LD_PRELOAD=/" in done.stdout
        wait_for(lambda: rig.json("ps", "-o", "json") == [], "the tenant is removed")


def memory_units_mean_what_they_mean_in_other_tools():
    with Rig() as rig:
        for i, (memory, quota) in enumerate(
            (
                ("4g", 4 << 30),
                ("4gb", 4 << 30),
                ("4gib", 4 << 30),
                ("2048m", 2 << 30),
                (".5g", 1 << 29),
                ("4G", 4 * 10**9),
                ("4Gi", 4 << 30),
                ("4GB", 4 * 10**9),
            )
        ):
            child = rig.run(
                "-q", "--request", ".1", "--limit", ".5", "--memory", memory, "--name", f"t{i}", "--", "sleep", "60"
            )
            wait_for(lambda name=f"t{i}": rig.tenant(name), "the tenant exists")
            tenant = rig.tenant(f"t{i}")
            assert tenant["spec"]["request_permille"] == 100 and tenant["spec"]["limit_permille"] == 500, tenant
            assert tenant["devices"][0]["memory_quota_bytes"] <= quota, (memory, tenant)
            assert tenant["devices"][0]["memory_quota_bytes"] > quota - (2 << 20), (memory, tenant)
            rig.end(child)
            wait_for(lambda name=f"t{i}": not rig.tenant(name), "the tenant is removed")


def a_quota_below_the_size_of_a_context_is_reported():
    with Rig() as rig:
        child = rig.talk([DIVVY, "run", "--request", "0.1", "--memory", "100Mi", "--name", "small", "--", "cat"])
        wait_for(lambda: rig.tenant("small"), "the tenant exists")
        done = rig.divvy("set", "small", "--memory", "200Mi")
        assert "memory 200Mi: a CUDA context alone" in done.stderr and done.returncode == 0, done
        assert not rig.divvy("set", "small", "--memory", "2Gi").stderr
        _, said = child.communicate("")
        assert "memory 100Mi: a CUDA context alone takes" in said, said


def a_setting_that_hides_all_devices_is_reported():
    with Rig(simulate="2xH200-141Gi") as rig:
        env = {"CUDA_VISIBLE_DEVICES": "1"}
        done = rig.divvy("run", *WISH[:-1], "--", SPIN, "--duration=0.1", env=env)
        assert done.returncode == 1 and "CUDA_VISIBLE_DEVICES=1 hides all devices" in done.stderr, done
        assert "has device 0 only" in done.stderr and "--device" in done.stderr, done
        for options, value in (("--count=2",), "1"), ((), "0"), ((), ""), ((), "GPU-0"), (("-q",), "3"):
            done = rig.divvy("run", *WISH[:-1], *options, "--", "true", env={"CUDA_VISIBLE_DEVICES": value})
            assert done.returncode == 0 and "CUDA_VISIBLE" not in done.stderr, (options, value, done)
        done = rig.divvy("run", *WISH[:-1], "--count=2", "--", "true", env={"CUDA_VISIBLE_DEVICES": "2,0"})
        assert "devices 0 to 1 only" in done.stderr, done


def too_few_descriptors_are_reported():
    with Rig() as rig:
        done = rig.divvy("run", *WISH, "--", "sh", "-c", f"ulimit -n 6; exec {SPIN} --duration=0.1")
        assert done.returncode == 1 and "ulimit -n" in done.stderr, done
        assert "Message too long" not in done.stderr, done
        done = rig.divvy("run", *WISH, "--", "sh", "-c", f"ulimit -n 40; exec {SPIN} --duration=0.1")
        assert done.returncode == 0, done


def containers_get_mounts_environment_and_device():
    with Rig() as rig:
        for engine in ("docker", "podman", "nerdctl"):
            done = rig.divvy("run", *WISH, "--container", engine, "--dry-run", "--", "run", "--rm", "img", "cmd")
            assert done.returncode == 0, done.stderr
            words = shlex.split(done.stdout)
            assert words[:2] == [engine, "run"] and words[-3:] == ["--rm", "img", "cmd"]
            mounts = [word for word in words if word.startswith("type=bind,")]
            assert f"type=bind,source={rig.dir}/programs,target=/run/divvy,readonly" in mounts
            assert all(mount.endswith(",readonly") for mount in mounts), mounts
            assert not any(
                f"source={rig.dir}," in mount for mount in mounts
            ), "the container does not mount the daemon's folder with all secrets"
            assert "DIVVY_SOCKET=/run/divvy/divvyd.sock" in words
            assert "DIVVY_TENANT" in words, "the engine gets the secret's name without its value"
            assert sum(w.endswith("libdivvy-cuda.so,readonly") for w in words) == 1
        rig.divvy("run", *WISH, "--container", "docker", "--dry-run", "--", "run", "-d", "img")
        wait_for(lambda: rig.json("ps", "-o", "json") == [], "no container ran, so the tenant is removed")
        refused(
            rig.divvy("run", *WISH, "--container", "docker", "--dry-run", "--", "docker", "exec", "x"),
            125,
            "expected 'run' or 'create'",
        )


def a_container_engine_is_called():
    """A script with the engine's name shows its arguments: the test needs no engine."""
    with Rig() as rig:
        path = os.path.join(rig.dir, "bin")
        os.mkdir(path)
        with open(os.path.join(path, "podman"), "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\necho "$DIVVY_TENANT"\necho "${LD_PRELOAD-unset}"\nexit 9\n')
        os.chmod(f.name, 0o755)
        done = rig.divvy(
            "run", *WISH, "--container", "podman", "--", "run", "img", env={"PATH": path + ":" + os.environ["PATH"]}
        )
        lines = done.stdout.splitlines()
        assert done.returncode == 9 and len(lines[0]) == 32 and lines[1] == "unset", done


def fake_engine(rig, script):
    path = os.path.join(rig.dir, "bin")
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "docker"), "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + script)
    os.chmod(f.name, 0o755)
    return {"PATH": path + ":" + os.environ["PATH"]}


def a_tenant_lives_as_long_as_its_container():
    """The tenant lives even if no program in it has used a device, and the engine's command has
    exited."""
    with Rig() as rig:
        env = fake_engine(rig, "setsid sleep 600 >/dev/null 2>&1 & echo $!\n")
        done = rig.divvy("run", *WISH, "--name", "box", "--container", "docker", "--", "run", "img", env=env)
        container = int(done.stdout)
        try:
            assert rig.tenant("box")["lifetime"] == "process"
            assert not alive(rig.tenant("box")["pid"])
            rig.divvy("ps")
            assert rig.tenant("box"), "the running container keeps the tenant"
        finally:
            os.kill(container, signal.SIGKILL)
        wait_for(lambda: not rig.tenant("box"), "the tenant is removed after its container")


def the_daemon_waits_for_a_detached_containers_engine():
    """The engine's command may fetch an image for longer than a tenant without programs lives."""
    with Rig(daemon=False) as rig:
        rig.start("--exit-idle=2s")
        child = rig.run(
            *WISH,
            "--container",
            "docker",
            "--",
            "run",
            "--name",
            "x",
            "-dit",
            "me/box:1",
            env=fake_engine(rig, "exec sleep 600\n"),
        )
        wait_for(lambda: rig.tenant("box-1"), "the tenant exists and has the image's name")
        tenant = rig.tenant("box-1")
        assert (tenant["lifetime"], tenant["pid"]) == ("processes", child.pid), tenant
        time.sleep(4)  # longer than the idle daemon's limit
        assert rig.tenant("box-1"), "the daemon has not exited before its tenant"


def an_idle_daemon_exits():
    with Rig(daemon=False, env={"DIVVY_EXIT_IDLE": "300ms"}) as rig:
        rig.divvy("run", *WISH, "--", "true")
        words = rig.divvy("version").stdout.split()
        if "pid" in words:  # the daemon may have exited by now
            pid = int(words[words.index("pid") + 1].rstrip(","))
            wait_for(lambda: not alive(pid), "the idle daemon has exited")
        assert subprocess.run([DIVVY, "ps"], env=rig.env, capture_output=True, check=False).returncode == 1
        wait_for(lambda: rig.divvy("report").returncode == 1, "no daemon answers `report`")
        refused(rig.divvy("report"), 1, "no daemon runs", os.path.join(rig.dir, "usage"), "divvy run")


def a_daemon_that_cannot_start_says_why():
    with Rig(daemon=False) as rig:
        refused(
            rig.divvy("run", *WISH, "--", "true", env={"DIVVY_SIM_COSTS": "garbage"}),
            125,
            "divvyd exited at once: ",
            "DIVVY_SIM_COSTS",
            "garbage",
        )
        with open(os.path.join(rig.dir, "sim", "faults"), "w", encoding="utf-8") as f:
            f.write("nonsense\n")
        refused(rig.divvy("run", *WISH, "--", "true"), 125, "sim/faults: line 1", "nonsense")


def other_simulated_devices_are_served_or_refused():
    """The engine of the simulated device runs as long as a process uses it, and a moment longer."""
    with Rig() as rig:
        rig.stop()
        rig.simulate = "2xA100-80Gi"
        rig.start()
        devices = rig.json("devices", "-o", "json")
        assert [d["model"] for d in devices] == ["NVIDIA A100-SXM4-80GB"] * 2, devices
        sim = {"DIVVY_SIM": os.path.join(rig.dir, "sim"), "LD_LIBRARY_PATH": os.path.join(BUILD, "src/simgpu")}
        user = subprocess.Popen([SPIN, "--duration=60"], env={**rig.env, **sim}, stdout=subprocess.DEVNULL)
        rig.children.append(user)
        state = os.path.join(rig.dir, "sim", "state")
        wait_for(lambda: struct.pack("=i", user.pid) in open(state, "rb").read(), "the program uses the device")
        rig.stop()
        done = subprocess.run(
            [DIVVYD, "--simulate", "1xT4"], env=rig.env, capture_output=True, text=True, timeout=patience(), check=False
        )
        assert (
            done.returncode == 1 and "--simulate 1xT4: programs still use other simulated devices" in done.stderr
        ), done
        done = subprocess.run(
            [DIVVYD, "--simulate", "1x"], env=rig.env, capture_output=True, text=True, timeout=patience(), check=False
        )
        assert "--simulate: devices: '1x' has no model name" in done.stderr, done
        rig.start()  # the same devices again


def an_engine_without_its_folder_keeps_the_next_engines_files():
    with Rig() as rig, open(os.path.join(rig.dir, "sim", "engine.lock"), "rb") as lock:
        shutil.rmtree(os.path.join(rig.dir, "sim"))
        first = rig.daemon
        first.kill()
        first.wait()
        rig.start()
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the first engine exits
        assert os.path.exists(os.path.join(rig.dir, "sim", "engine.sock"))
        assert rig.divvy("run", *WISH, "--", SPIN, "--duration=0.1").returncode == 0


def a_program_without_proc_learns_why_it_has_no_gpu():
    script = 'mount -t tmpfs none /proc || exit 77; "$1" --duration=0.1'
    with Rig() as rig:
        if (
            not shutil.which("unshare")
            or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode
        ):
            return
        done = rig.divvy("run", *WISH, "--", "unshare", "-m", "sh", "-c", script, "sh", SPIN)
        if done.returncode != 77:
            assert done.returncode and "NO_DEVICE" in done.stderr, done
            assert done.stderr.count("no GPU for this program: ") == 1 and "mount /proc" in done.stderr, done


def a_full_file_system_ends_only_the_trace():
    """Without enough space at the start, the device fails with a message. Runs in a mount
    namespace, if the machine allows one."""

    def spin_in(size):
        script = (
            'mount -t tmpfs -o "size=$1" none "$2" || exit 77; '
            'env "DIVVY_SIM=$2/sim" "LD_LIBRARY_PATH=$3" "$4" --kernel-us=1 --count=80000 || exit; '
            'cat "$2/sim/engine.log" >&2'
        )
        return subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", size, rig.dir, os.path.join(BUILD, "src/simgpu"), SPIN],
            env=rig.env,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
        )

    with Rig(daemon=False) as rig:
        if (
            not shutil.which("unshare")
            or subprocess.run(
                ["unshare", "-rm", "mount", "-t", "tmpfs", "none", rig.dir], capture_output=True, check=False
            ).returncode
        ):
            return
        done = spin_in("3m")  # the trace of 80000 kernels needs 5 MiB
        assert done.returncode == 0 and "the engine records nothing from now on" in done.stderr, done
        done = spin_in("64k")
        assert done.returncode > 0 and "error: reserve space for" in done.stderr, done


main(
    exit_code_and_pid_are_the_programs,
    signals_reach_the_program,
    options_end_at_the_program,
    the_program_gets_its_environment,
    the_tenant_ends_with_the_program,
    the_daemon_starts_on_demand_and_reports_a_simulation,
    preferred_anti_affinity_is_kept_while_possible,
    a_daemon_on_demand_keeps_no_descriptor_of_its_caller,
    many_runs_start_one_daemon,
    programs_continue_after_their_daemon_is_killed,
    the_next_run_restarts_a_killed_daemon,
    a_run_waits_for_free_capacity,
    a_wait_has_a_time_limit,
    a_signal_ends_a_wait,
    a_lost_device_gets_no_new_tenant,
    an_xid_of_the_device_ends_with_the_recovery,
    a_program_learns_of_the_xid_that_it_caused,
    memory_units_mean_what_they_mean_in_other_tools,
    a_quota_below_the_size_of_a_context_is_reported,
    a_setting_that_hides_all_devices_is_reported,
    too_few_descriptors_are_reported,
    dry_run_prints_and_runs_nothing,
    containers_get_mounts_environment_and_device,
    a_container_engine_is_called,
    a_tenant_lives_as_long_as_its_container,
    the_daemon_waits_for_a_detached_containers_engine,
    an_idle_daemon_exits,
    a_daemon_that_cannot_start_says_why,
    other_simulated_devices_are_served_or_refused,
    a_program_without_proc_learns_why_it_has_no_gpu,
    an_engine_without_its_folder_keeps_the_next_engines_files,
    a_full_file_system_ends_only_the_trace,
)
