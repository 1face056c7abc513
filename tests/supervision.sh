#!/bin/bash
# supervision.sh: what happens when processes are killed, stopped or interrupted: the run ends, its
# last line says why, and nothing is left behind. Processes are really killed here, at several moments.
# sanitizers: no
#
# Nothing depends on how fast the machine is: whatever should happen is waited for, and only a minute
# without it is a failure.
. tests/tools/cases.sh
set -m # every job is a process group of its own, as in a terminal
ulimit -c 0

# A run that would go on for very long, with a line after every epoch; three ranks wait a lot.
endless="--data=synthetic --samples=600 --layers=784,32,10 --batch=60 --device=cpu --epochs=20000"

# start ARGUMENTS: the trainer in the background, as process $parent of a group of the same number.
start() {
    : >"$work/err" # before it starts: the last job's lines must not be taken for this one's
    "$TRAINER" "$@" >"$work/out" 2>"$work/err" &
    parent=$!
}

# ended: waits for the job and takes its exit status.
ended() {
    wait "$parent" 2>/dev/null
    status=$?
}

wait_until() {
    local tries=0
    until "$@"; do
        tries=$((tries + 1))
        if [ $tries = 1200 ]; then
            echo "    waited a minute for: $*"
            return 1
        fi
        sleep 0.05
    done
}

# members GROUP: its processes, but for those that have ended and wait for their parent's attention.
members() {
    cat /proc/[0-9]*/stat 2>/dev/null |
        sed -n 's/^\([0-9]*\) (.*) \([A-Z]\) [0-9]* \([0-9]*\) .*/\1 \2 \3/p' |
        awk -v group="$1" '$3 == group && $2 != "Z" && $2 != "X" { print $1 }'
}
all_gone() {
    [ -z "$(members "$parent")" ]
}
has_members() {
    [ "$(members "$parent" | wc -l)" = "$1" ]
}

# pid_of RANK: from the lines at the start of a run. `said WORDS`: somewhere on standard error.
pid_of() {
    sed -n "s/^rank $1: pid \([0-9]*\)$/\1/p" "$work/err"
}
said() {
    grep -q -- "$1" "$work/err"
}

# in_state PID LETTER: as in `ps`; T is stopped
in_state() {
    [ "$(sed 's/.*) \(.\) .*/\1/' "/proc/$1/stat" 2>/dev/null)" = "$2" ]
}

# more_epochs_than COUNT: their lines are counted.
more_epochs_than() {
    [ "$(grep -c "^epoch" "$work/err")" -gt "$1" ]
}
# waits_for_a_writer: the trainer is asleep in opening a pipe that has no other end.
waits_for_a_writer() {
    [ "$(cat "/proc/$parent/comm" 2>/dev/null)" = trainer ] && in_state "$parent" S
}

# last_line PATTERN: the summary is the last thing that is printed.
last_line() {
    tail -n 1 "$work/err" | grep -Eqx -- "$1" && [ ! -s "$work/out" ] && return
    tail -n 1 "$work/err" | sed 's/^/    last line: /'
    return 1
}

where="(before the first step|in step [0-9]+, phase [a-z_]+)"

# --- a rank is killed ---

# killed NAME SIGNAL RANK WHEN ARGUMENTS: DDP on three devices, a rank of which gets a signal as soon as
# standard error shows WHEN.
killed() {
    local name=$1 signal=$2 rank=$3 when=$4 pid
    shift 4
    start --mode=ddp --devices=3 $endless "$@"
    wait_until said "$when"
    pid=$(pid_of "$rank")
    kill "-$signal" "$pid"
    ended
    expect "$name: exit status 1" is "$status" 1
    expect "$name: the last line names rank, signal, step and collective" last_line \
        "trainer: FAILED: DDP( without overlap)?, 3 devices: rank $rank \(pid $pid\) was killed by signal \
$(kill -l "$signal") \(.*\) $where; its last collective: .+"
    expect "$name: no process is left" wait_until all_gone
}

killed "rank 1 killed at the start" KILL 1 "^rank 2: pid"
killed "rank 0 killed in an epoch" KILL 0 "^epoch 2 "
killed "rank 2 crashes" SEGV 2 "^epoch 3 "
killed "rank 1 killed, no overlap" KILL 1 "^epoch 1 " --overlap=off
expect "a rank that dies while training: the step is named" grep -q "FAILED.* in step [1-9]" "$work/err"

start --mode=dp --devices=3 $endless
wait_until said "^epoch 1 "
boss=$(sed -n 's/^DP: pid \([0-9]*\), 3 devices, a thread each$/\1/p' "$work/err")
kill -KILL "$boss"
ended
expect "DP killed: exit status 1" is "$status" 1
expect "DP killed: the last line says who, and when" last_line \
    "trainer: FAILED: DP, 3 devices: the boss \(pid $boss\) was killed by signal 9 \(Killed\) in step [0-9]+, phase [a-z_]+"

start $endless --devices=1,3 --quiet # compare: 1 + 1 + 3 + 3 + 3 processes and their parent
wait_until has_members 12
victim=$(members "$parent" | tail -n 1)
kill -KILL "$victim"
ended
expect "compare: a process killed ends all with status 1" is "$status" 1
expect "compare: the last line names the run" last_line "trainer: FAILED: .*\(pid $victim\) .*signal 9.*"
expect "compare: no process is left" wait_until all_gone

# --- the parent is killed ---

for mode in "--mode=dp --devices=3" "--mode=ddp --devices=3" "--devices=2"; do
    for delay in 0 0.02 0.05 0.1 0.3; do
        start $mode $endless
        sleep $delay
        kill -KILL "$parent"
        ended
        expect "parent killed after $delay s ($mode): no process survives" wait_until all_gone
    done
done

start --mode=ddp --devices=3 $endless
wait_until said "^epoch 1 "
kill -STOP "$(pid_of 1)"
kill -KILL "$parent"
ended
expect "parent killed while a rank is stopped: no process survives" wait_until all_gone

# --- signals for the parent ---

# with as many processes as there then are, the parent among them
for mode in "2 --mode=dp --devices=3" "4 --mode=ddp --devices=3" "9 --devices=2"; do
    processes=${mode%% *}
    mode=${mode#* }
    start $mode $endless
    wait_until has_members "$processes"
    kill -INT -- "-$parent"
    ended
    expect "Ctrl-C ($mode): exit status 130" is "$status" 130
    expect "Ctrl-C ($mode): said in the last line" last_line \
        "trainer: interrupted by signal 2 \(Interrupt\); every process has been ended"
    expect "Ctrl-C ($mode): nothing is left" all_gone
done
signals="INT TERM"
[ -z "$(trap -p HUP)" ] && signals="$signals HUP" # else these tests themselves run under nohup
for signal in $signals; do
    start --mode=ddp --devices=3 $endless
    wait_until said "^epoch 1 "
    kill -STOP "$(pid_of 2)" # a stopped rank must not be in the way
    kill "-$signal" "$parent"
    ended
    expect "SIG$signal to the parent alone: its status" is "$status" $((128 + $(kill -l $signal)))
    expect "SIG$signal to the parent alone: nothing is left" all_gone
done

# Before anything is forked: it waits here for a file that nobody writes.
mkfifo "$work/nobody_writes"
for signal in $signals QUIT; do
    start --replay="$work/nobody_writes"
    wait_until waits_for_a_writer
    kill "-$signal" "$parent"
    ended
    expect "SIG$signal while it reads: its status" is "$status" $((128 + $(kill -l $signal)))
    expect "SIG$signal while it reads: said" last_line \
        "trainer: interrupted by signal [0-9]+ \([A-Za-z]+\); every process has been ended"
done

# nohup: the terminal may be closed, the run goes on.
trap '' HUP
start --mode=ddp --devices=2 $endless
trap - HUP
wait_until said "^epoch 1 "
kill -HUP -- "-$parent"
epoch=$(grep -c "^epoch" "$work/err")
expect "SIGHUP under nohup: it goes on" wait_until more_epochs_than $((epoch + 1))
kill -TERM "$parent"
ended
expect "SIGTERM under nohup: its status" is "$status" 143
expect "SIGTERM under nohup: nothing is left" all_gone

# --- a rank is stopped ---

job="--mode=ddp --devices=3 --data=synthetic --samples=1200 --layers=784,32,10 --batch=60 --device=cpu"
job="$job --epochs=150 --log-losses"
run $job --json="$work/undisturbed.json"
expect "an undisturbed run: exit status 0" is "$status" 0
start $job --json="$work/disturbed.json"
for moment in "0 ^rank 2: pid" "1 ^epoch 2 " "2 ^epoch 5 "; do
    wait_until said "${moment#* }"
    rank=$(pid_of "${moment%% *}")
    kill -STOP "$rank"
    expect "rank ${moment%% *} is stopped" wait_until in_state "$rank" T
    sleep 0.3
    kill -CONT "$rank"
done
ended
expect "stopped and continued: exit status 0" is "$status" 0
mode=results.mode=ddp
expect "stopped and continued: the losses of every step are the same" \
    is "$(json "$work/disturbed.json" $mode.losses)" "$(json "$work/undisturbed.json" $mode.losses)"
expect "stopped and continued: the accuracy is the same" \
    is "$(json "$work/disturbed.json" $mode.accuracy)" "$(json "$work/undisturbed.json" $mode.accuracy)"
expect "there are as many losses as steps" is "$(json "$work/disturbed.json" "$mode.losses.#")" 3000

for when in "^rank 2: pid" "^epoch 1 "; do
    name="stopped for too long (at \"${when#^}\")"
    start --mode=ddp --devices=3 $endless --timeout=1
    wait_until said "$when"
    kill -STOP "$(pid_of 1)"
    ended
    expect "$name: exit status 1" is "$status" 1
    for rank in 0 2; do
        expect "$name: rank $rank says who is missing" said "^trainer: rank $rank: .* waited 1 s for rank 1, which did not "
    done
    expect "$name: the last line is the summary" last_line "trainer: FAILED: DDP, 3 devices: rank [02] \
\(pid [0-9]+\) exited with status 1 $where; its last collective: .+"
    expect "$name: the stopped rank is ended, too" wait_until all_gone
done

# --- nothing on the disk ---

# In a namespace where /tmp and /dev/shm are empty at the start: whatever is there in the end is ours.
exec 9<"$TRAINER"
leftovers='mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm || exit 77
/proc/self/fd/9 '"$small"' --steps=20 --devices=2 --quiet >/dev/null || exit 1
/proc/self/fd/9 --mode=ddp --devices=3 '"$endless"' >/dev/null 2>&1 & parent=$!
sleep 0.5
kill -KILL $parent
find /tmp /dev/shm -mindepth 1'
left=$(unshare -rm bash -c "$leftovers" 2>"$work/err")
status=$?
if [ $status = 77 ] || grep -q '^unshare' "$work/err"; then
    echo "skip nothing is left in /dev/shm and /tmp: no namespace may be made here"
else
    expect "nothing is left in /dev/shm and /tmp" is "$status:$left" "0:"
fi

finish
