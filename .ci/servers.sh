# Sourced by the scripts here: what they start in the background ends with them.
servers=()

# start LOG COMMAND...: run a command; its stdout goes to LOG, its stderr to LOG.err.
start() {
    echo "== ${*:2}"
    "${@:2}" >"$1" 2>"$1.err" &
    servers+=($!)
}

# wait_for LOG COMMAND...: return when the command succeeds; fail with LOG.err if the last server ends before.
wait_for() {
    for _ in $(seq 600); do
        if "${@:2}" 2>/dev/null; then return; fi
        if ! kill -0 "${servers[-1]}" 2>/dev/null; then break; fi
        sleep 0.2
    done
    cat "$1.err" >&2
    return 1
}

# End the last server first: it may need the others.
stop_servers() {
    for ((i = ${#servers[@]} - 1; i >= 0; i--)); do
        kill -TERM "${servers[i]}" 2>/dev/null || true
        wait "${servers[i]}" || true
    done
    servers=()
}

# printed LOG NAME: the value of a line of what `dev` prints.
printed() {
    sed -n "s/^$2  *//p" "$1"
}
