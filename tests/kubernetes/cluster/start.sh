#!/bin/bash
# Bring up a one-node Kubernetes inside a network namespace of its own. Root, no Docker, no systemd.
#   W        working directory, new or left by stop.sh   (default /tmp/tgk8s; keep it short: sockets)
#   BIN      folder with kube, coredns and pause (build.sh)
#   VENV     virtual environment with PySpark and the project; in containers /opt/venv
#   SPARK_JARS  the jars of the image, if not those of VENV's PySpark
#   EXTRA    more host folders that every container sees, read-only, at the same path (a:b:c)
# Afterwards: `$W/k kubectl get pods`, and `$W/k COMMAND` for anything else in the namespace.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
W=${W:-/tmp/tgk8s} BIN=${BIN:-$W/bin} VENV=${VENV:?} EXTRA=${EXTRA:-}
NS=tgk8s NODE_IP=10.99.0.1
mkdir -p "$W"/{pki,kubeconfig,log,pid,etcd,containerd,cni/net.d,kubelet,shared} "$W"/log/pods
chmod 711 "$W"; chmod 1777 "$W/shared"
t0=$(date +%s%N)
for p in "$W"/pid/*; do
  [ -e "$p" ] && grep -qs "$W" "/proc/$(cat "$p")/cmdline" && { echo "already running: $p; run stop.sh first" >&2; exit 1; }
done
say() { printf '%6d ms  %s\n' $(( ($(date +%s%N) - t0) / 1000000 )) "$*"; }
fill() { sed "s#@W@#$W#g; s#@NODE_IP@#$NODE_IP#g" "$HERE/$1"; }
run() { # run NAME COMMAND...: a daemon in the network namespace, its pid in $W/pid/NAME
  local name=$1; shift
  setsid nsenter --net=/run/netns/$NS "$@" >"$W/log/$name.log" 2>&1 </dev/null &
  echo $! >"$W/pid/$name"
}
until_ok() { # until_ok SECONDS WHAT COMMAND...
  local end=$(( $(date +%s) + $1 )) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -lt $end ] || { echo "no $what; see $W/log" >&2; exit 1; }
    sleep 0.1
  done
  say "$what"
}

# --- network: a namespace without any way out; the node's address is one end of a veth pair in it
if ! [ -e /run/netns/$NS ]; then
  ip netns add $NS
  ip -n $NS link set lo up
  ip -n $NS link add node0 type veth peer name node1
  ip -n $NS addr add $NODE_IP/24 dev node0
  ip -n $NS link set node0 up; ip -n $NS link set node1 up
  ip -n $NS route add default dev node0 # cluster addresses need some route before NAT sees them
fi

# --- certificates, tokens, kubeconfigs
if ! [ -e "$W/pki/tokens.csv" ]; then
  ( cd "$W/pki"; umask 077
    q() { openssl "$@" 2>/dev/null; }
    q req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN=tgk8s-ca
    cert() { # cert NAME SUBJECT EXTENSIONS
      q req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2"
      q x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" -extfile <(echo "$3")
    }
    cert apiserver /CN=kube-apiserver "subjectAltName=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,DNS:node1,IP:127.0.0.1,IP:10.96.0.1,IP:$NODE_IP"
    cert kubelet /O=system:nodes/CN=system:node:node1 "subjectAltName=DNS:node1,IP:$NODE_IP,IP:127.0.0.1"
    cert kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client "extendedKeyUsage=clientAuth"
    q genrsa -out sa.key 2048; q rsa -in sa.key -pubout -out sa.pub
    r() { head -c16 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
    { echo "$(r),admin,admin,\"system:masters\""
      echo "$(r),system:kube-controller-manager,kcm,"
      echo "$(r),system:kube-scheduler,scheduler,"
      echo "$(r),system:kube-proxy,kube-proxy,"
      echo "$(r),system:coredns,coredns,"
      echo "$(r),system:node:node1,kubelet,\"system:nodes\""; } >tokens.csv )
  while IFS=, read -r token user uid _; do
    cat >"$W/kubeconfig/$uid" <<END
apiVersion: v1
kind: Config
clusters: [{name: k, cluster: {server: "https://$NODE_IP:6443", certificate-authority: "$W/pki/ca.crt"}}]
users: [{name: "$user", user: {token: "$token"}}]
contexts: [{name: k, context: {cluster: k, user: "$user"}}]
current-context: k
END
  done <"$W/pki/tokens.csv"
  chmod 600 "$W"/kubeconfig/*
fi
fill containerd.toml >"$W/containerd/config.toml"
fill kubelet.yaml >"$W/kubelet.yaml"
fill kube-proxy.yaml >"$W/kube-proxy.yaml"
fill 10-bridge.conflist >"$W/cni/net.d/10-bridge.conflist"
fill Corefile >"$W/Corefile"
: >"$W/resolv.conf"
cat >"$W/k" <<END
#!/bin/sh
# COMMAND in the cluster's network namespace, as its admin
export KUBECONFIG=$W/kubeconfig/admin PATH=$BIN:\$PATH
case "\$1" in kubectl) shift; set -- $BIN/kube kubectl "\$@";; esac
exec nsenter --net=/run/netns/$NS "\$@"
END
chmod +x "$W/k"
say "files and network"

# --- control plane
run etcd "$BIN/kube" etcd --data-dir "$W/etcd" --unsafe-no-fsync --log-level warn \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
run kube-apiserver "$BIN/kube" kube-apiserver --etcd-servers http://127.0.0.1:2379 \
  --bind-address 0.0.0.0 --advertise-address $NODE_IP --secure-port 6443 \
  --tls-cert-file "$W/pki/apiserver.crt" --tls-private-key-file "$W/pki/apiserver.key" --client-ca-file "$W/pki/ca.crt" \
  --kubelet-client-certificate "$W/pki/kubelet-client.crt" --kubelet-client-key "$W/pki/kubelet-client.key" \
  --kubelet-preferred-address-types InternalIP \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$W/pki/sa.pub" --service-account-signing-key-file "$W/pki/sa.key" \
  --token-auth-file "$W/pki/tokens.csv" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
  --service-cluster-ip-range 10.96.0.0/16 --max-requests-inflight 200 --max-mutating-requests-inflight 100
# --- containerd meanwhile; every container sees the node's /usr, JDK, Python and Spark, read-only
PY_HOME=$(dirname "$(dirname "$(readlink -f "$VENV/bin/python")")")
SPARK=$(cd "$VENV"/lib/python3*/site-packages/pyspark && pwd)
ctr oci spec | python3 -c '
import json, os, sys
spec = json.load(sys.stdin)
n = int(sys.argv[1]) # not above the own limit: that needs CAP_SYS_RESOURCE
have = [a.split("=") for a in sys.argv[2:]]
spec["mounts"] += [{"destination": d, "source": s, "type": "bind", "options": ["rbind", "ro", "nosuid", "nodev"]} for s, d in have if os.path.exists(s)]
spec["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": n, "soft": n}]
json.dump(spec, sys.stdout)' "$(ulimit -Hn)" /usr=/usr /etc/java-17-openjdk=/etc/java-17-openjdk /etc/ssl=/etc/ssl /etc/alternatives=/etc/alternatives \
  "$PY_HOME=$PY_HOME" "$VENV=/opt/venv" \
  $(for d in bin sbin python; do echo "$SPARK/$d=/opt/spark/$d"; done) "${SPARK_JARS:-$SPARK/jars}=/opt/spark/jars" `: # not /opt/spark itself: Spark mounts a ConfigMap at /opt/spark/conf` \
  $(tr : ' ' <<<"$EXTRA" | xargs -n1 -r sh -c 'echo $0=$0') >"$W/containerd/base-spec.json"
run containerd containerd --config "$W/containerd/config.toml"
python3 "$HERE/images.py" "$BIN/pause" "$HERE/entrypoint.sh" "$W/containerd"
CTR="ctr --address $W/containerd/containerd.sock --namespace k8s.io"
until_ok 30 containerd $CTR version
for i in pause spark; do $CTR images import "$W/containerd/$i.tar" >>"$W/log/import.log" 2>&1 || { tail -3 "$W/log/import.log" >&2; exit 1; }; done
say images
until_ok 120 kube-apiserver "$W/k" curl -sf --cacert "$W/pki/ca.crt" https://$NODE_IP:6443/readyz
run kube-controller-manager "$BIN/kube" kube-controller-manager --kubeconfig "$W/kubeconfig/kcm" --bind-address 127.0.0.1 --leader-elect=false \
  --service-account-private-key-file "$W/pki/sa.key" --root-ca-file "$W/pki/ca.crt" --use-service-account-credentials \
  --node-monitor-period 2s --node-monitor-grace-period 20s --terminated-pod-gc-threshold 200
run kube-scheduler "$BIN/kube" kube-scheduler --kubeconfig "$W/kubeconfig/scheduler" --bind-address 127.0.0.1 --leader-elect=false
run kubelet "$BIN/kube" kubelet --config "$W/kubelet.yaml" --kubeconfig "$W/kubeconfig/kubelet" --root-dir "$W/kubelet" --cert-dir "$W/pki" \
  --tls-cert-file "$W/pki/kubelet.crt" --tls-private-key-file "$W/pki/kubelet.key" \
  --hostname-override node1 --node-ip $NODE_IP
"$W/k" kubectl apply -f "$HERE/cluster.yaml" >"$W/log/apply.log"
"$W/k" kubectl apply -f "$HERE/../../../docs/examples/kubernetes/rbac.yaml" >>"$W/log/apply.log"
run kube-proxy "$BIN/kube" kube-proxy --config "$W/kube-proxy.yaml"
run coredns "$BIN/coredns" -conf "$W/Corefile" -quiet
until_ok 90 "node ready" sh -c "'$W/k' kubectl get node node1 -o 'jsonpath={.status.conditions[?(@.type==\"Ready\")].status}' | grep -q True"
until_ok 60 "service account" "$W/k" kubectl -n spark get configmap kube-root-ca.crt
until_ok 60 kube-proxy "$W/k" curl -sf --max-time 2 http://127.0.0.1:10256/healthz
until_ok 60 dns nsenter --net=/run/netns/$NS python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
s.sendto(bytes.fromhex('000101000001000000000000') + b''.join(bytes([len(p)]) + p for p in b'kubernetes.default.svc.cluster.local'.split(b'.')) + bytes.fromhex('0000010001'), ('$NODE_IP', 53))
assert s.recv(512)[7] > 0"
