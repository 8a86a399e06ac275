#!/bin/sh
# Run $SPARK_HOME's spark-submit so that it ends with the process that started it: the kernel
# sends TERM to what is, after a few execs, the JVM. Nothing there may wait for a terminal.
# The inner shell asks again who its parent is: it may have died before the signal was set.
# No core dump of it, or of the driver's Python, may hold passwords and keys.
ulimit -c 0
# In cluster mode: keys that Spark's client would write into files that YARN keeps.
unset $TIDEGATE_UNSET TIDEGATE_UNSET
exec setpriv --pdeathsig TERM -- sh -c '
    [ "$PPID" = "$1" ] || exit 1
    shift
    exec "$@"
' sh "$PPID" "$SPARK_HOME/bin/spark-submit" "$@" </dev/null
