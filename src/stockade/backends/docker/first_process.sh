# The first process of a container: it opens the pipes, waits for a job, takes it, waits for the warden's word, runs the
# guest, and reports. It may wait for long: until the word, nothing in the container is about any job.
#
# It reaps orphans, and the guest is its child: as PID 1 of its namespace, a guest would ignore signals that have no
# handler. After its report it waits to be killed, so that the container's counters can be read until the end.
# The file "command" sets: channel, whether the guest has a result channel; limits, options of ulimit; path, where to
# look for programs, if that is not the image's own; exports, lines that set the guest's variables; and the arguments.
pipes=/.stockade
exec 2>/dev/null 7<"$pipes/orders" 8>"$pipes/reports" || exit 125
exec 3>"$pipes/channel" 4<"$pipes/stdin" 5>"$pipes/stdout" 6>"$pipes/stderr" || exit 125
echo ready >&8
read -r word <&7 && [ "$word" = take ] || exit 125
if [ -d "$pipes/workspace" ] && [ -w . ]; then
    cp -Rp "$pipes/workspace/." . || { echo "broken copy the job's files into the workspace" >&8; exit 125; }
fi
if [ -e "$pipes/input" ]; then
    exec 4<"$pipes/input" || exit 125
fi
unset path
. "$pipes/command"
echo taken >&8
read -r word <&7 && [ "$word" = go ] || exit 125
unset pipes word

why=missing
case $1 in
    */*) names=$1 ;;
    *) names=$(IFS=:; for folder in ${path-$PATH}; do echo "$folder/$1"; done) ;;
esac
old=$IFS IFS='
'
for name in $names; do
    [ -e "$name" ] || continue
    why=forbidden
    [ -f "$name" ] && [ -x "$name" ] && { why=; break; }
done
IFS=$old
unset old names name path
if [ -n "$why" ]; then
    echo "$why" >&8
    read -r word <&7
    exit 125
fi

[ "$channel" = yes ] || exec 3>&-
unset why
trap : INT
(
    for limit in $limits; do ulimit "${limit%%=*}" "${limit#*=}" || exit 125; done
    eval "unset channel limits limit exports; $exports"
    exec "$@" <&4 >&5 2>&6 4<&- 5>&- 6>&- 7<&- 8>&-
)
status=$?
exec 3>&- 4<&- 5>&- 6>&-
echo "exit $status" >&8
read -r word <&7
