# Functions for the scripts in this folder. The programs that a script starts with `start` end with the script.
servers=()

# start LOG COMMAND...: run a command; its stdout goes to LOG, its stderr to LOG.err.
start() {
    echo "== ${*:2}"
    "${@:2}" >"$1" 2>"$1.err" &
    servers+=($!)
}

# wait_for LOG COMMAND...: wait until the command succeeds, for two minutes at most. If it does not succeed, or if
# the server that was started last has ended, print LOG.err and fail.
wait_for() {
    for _ in $(seq 600); do
        if "${@:2}" 2>/dev/null; then return; fi
        if ! kill -0 "${servers[-1]}" 2>/dev/null; then break; fi
        sleep 0.2
    done
    cat "$1.err" >&2
    return 1
}

# End the server that was started last first, because it may need the others.
stop_servers() {
    for ((i = ${#servers[@]} - 1; i >= 0; i--)); do
        kill -TERM "${servers[i]}" 2>/dev/null || true
        wait "${servers[i]}" || true
    done
    servers=()
}

# printed LOG NAME: print the value in the line NAME of the output of `dev`.
printed() {
    sed -n "s/^$2  *//p" "$1"
}
