# Functions for the scripts in this folder. A script that uses `start` calls `stop_servers` when it ends.
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

# run COMMAND: print a command, and run it in a shell.
run() {
    echo "== $1"
    bash -c "$1"
}

# command_below HEADING: print the first line of the first code block below a heading of the README.
command_below() {
    awk -v heading="^#+ $1\$" '
        $0 ~ heading {found = 1}
        found && /^```/ {fences++; next}
        found && fences == 1 {print; found = 2; exit}
        END {if (found != 2) {print "README.md has no command below that heading" >"/dev/stderr"; exit 1}}
    ' README.md
}

# make_environment FOLDER: create .venv in the current checkout, with all that the tests need. FOLDER keeps uv, which
# needs seconds for what takes pip most of a minute. The newcomer's run installs with pip, as the README says.
make_environment() {
    [ -x "$1/bin/uv" ] || { python3 -m venv "$1" && "$1/bin/pip" install -q 'uv>=0.9,<1'; }
    "$1/bin/uv" venv --quiet --seed --python "$(python3 -c 'import sys; print(sys.executable)')" .venv
    VIRTUAL_ENV="$PWD/.venv" "$1/bin/uv" pip install --quiet -r tests/requirements.txt
}
