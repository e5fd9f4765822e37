# /// attack
# guarantee = "wall_time"
# summary = "Sleeps past its time in a shell that ignores every signal that can be ignored."
# reference = "trap in sh(1)"
# success = "three times the limit goes by"
# policy = { limits = { wall_time = 0.5 } }
# refusal = { default = "limit wall_time" }
# ///

trap '' HUP INT QUIT TERM USR1 USR2 ALRM XCPU PIPE TSTP TTIN TTOU
sleep 1.5
echo "ATTACK SUCCEEDED"
exit 42
