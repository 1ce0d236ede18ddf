#!/usr/bin/env bash
# A worker in bash, curl and jq: one job at a time, its lease renewed while it runs.
#   QUEUE_URL=http://127.0.0.1:8000 QUEUE_TOKEN=… QUEUE_KINDS=example.work ./worker.sh
set -uo pipefail
url=${QUEUE_URL:-http://127.0.0.1:8000} lease=${QUEUE_LEASE:-60}
kinds=$(jq -cn '[env.QUEUE_KINDS // "example.work" | splits(", *")]')
folder=$(mktemp -d) stopping=
trap 'rm -rf "$folder"' EXIT
trap 'stopping=1' TERM INT

# The work of one job: takes the payload, prints the result as JSON; what it says to stderr when it
# fails is the error. Put yours here.
run() {
    sleep "$(jq -r '.seconds // 0' <<<"$1")"
    if jq -e '.fail' <<<"$1" >/dev/null; then jq -r '.fail' <<<"$1" >&2 && return 1; fi
    jq -c '{echo}' <<<"$1"
}

# POST $2 to /api/leases$1 and print the answer. 0: done; 1: ask again later; 2: every lease is lost;
# 3: refused, and a mistake in the request stays one.
post() {
    local said
    said=$(curl -s -m 40 -w '%{http_code}' -H 'Content-Type: application/json' \
        -H @<(printf '%s' "${QUEUE_TOKEN:+Authorization: Bearer $QUEUE_TOKEN}") \
        --data-binary "@-" "$url/api/leases$1" <<<"$2") || return 1
    printf '%s' "${said%???}"
    case ${said: -3} in 200) return 0 ;; 409) return 2 ;; 429 | 5??) return 1 ;; esac
    printf 'refused: %s\n' "$said" >&2 && return 3
}

# Say how the job ended until it has been heard. Sending it twice does no harm. 3: it was refused.
settle() {
    local said
    while true; do
        said=$(post /settle "$(jq -c "{items: [{id, token} + $1]}" "${@:2}" <<<"$job")")
        case $? in
        0) [ "$(jq -r '.items[0].outcome' <<<"$said")" = busy ] || return 0 ;;
        2) echo 'lost: the job is somebody else'"'"'s, or will be' >&2 && return 0 ;;
        3) return 3 ;;
        esac
        sleep 1
    done
}

# Keep the lease while the work $1 goes on. 1: it was to be given up, and has been settled if need be.
keep() {
    local renewed=$SECONDS outcome
    while kill -0 "$1" 2>/dev/null; do
        sleep 0.2
        outcome=${stopping:+stopping}
        if [ $((SECONDS - renewed)) -ge $((lease / 3)) ]; then
            outcome=$(post /renew "$(jq -c --argjson lease "$lease" '{items: [{id, token}], $lease}' <<<"$job")" \
                | jq -r '.items[0].outcome')
            [ "$outcome" = renewed ] && renewed=$SECONDS
        fi
        case $outcome in
        lost | timeout) kill -- "-$1" 2>/dev/null; return 1 ;;
        cancel | stopping) kill -- "-$1" 2>/dev/null; settle '{verb: "release"}'; return 1 ;;
        esac
    done
}

while [ -z "$stopping" ]; do
    wanted=$(jq -cn --argjson lease "$lease" --argjson kinds "$kinds" '{$kinds, $lease, wait: 20}')
    job=$(post '' "$wanted") || { sleep 1 && continue; }
    job=$(jq -c '.items[0] // empty' <<<"$job")
    [ -n "$job" ] || continue
    set -m # the work has a process group of its own, which can be stopped as a whole
    run "$(jq -c .payload <<<"$job")" >"$folder/result" 2>"$folder/error" &
    set +m
    keep $! || continue
    if wait $!; then
        settle '{verb: "succeed", result: $result[0]}' --slurpfile result "$folder/result"
    else
        settle '{verb: "fail", error_message: $said}' --rawfile said "$folder/error"
    fi && continue
    # A result that is no JSON, or too large. It would be again: no other attempt, and the reason.
    settle '{verb: "fail", permanent: true, error_message: "what it said at its end was refused"}' || exit 1
done
