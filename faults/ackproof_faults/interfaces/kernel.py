"""Kernel features that faults use, each probed by a script in a container.

`ackproof doctor` probes all of them. A run probes the features of its faults before it boots
anything, and is refused if one is missing.
"""

from __future__ import annotations

from enum import Enum


class Need(Enum):
    """A kernel feature: its name, its use, and a script that ends with 0 if it is available.

    The script runs in its own network namespace, with NET_ADMIN. The engine's control groups are at
    /cgroup.
    """

    NFTABLES = (
        "nf_tables",
        "Partitions (nftables)",
        "nft add table inet ackproof_probe && nft delete table inet ackproof_probe",
    )
    REJECT = (
        "nf_tables reject",
        "Refused and reset connections (nftables reject)",
        "nft 'add table inet p; add chain inet p c { type filter hook output priority 0; }; "
        "add rule inet p c meta l4proto tcp reject with tcp reset'",
    )
    RANDOM_DROP = (
        "nf_tables numgen",
        "Random packet loss (nftables numgen)",
        "nft 'add table inet p; add chain inet p c { type filter hook input priority 0; }; "
        "add rule inet p c numgen random mod 100 < 10 drop'",
    )
    SOCKET_DESTROY = (
        "INET_DIAG_DESTROY",
        "Aborting open connections (ss -K)",
        """perl -MIO::Socket::INET -e '
        $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die;
        $client = IO::Socket::INET->new(PeerAddr => "127.0.0.1:" . $server->sockport) or die;
        $of = "state established dport = :" . $server->sockport;
        system("ss -K $of >/dev/null 2>&1"); exit(`ss -Htn $of` ne "")'""",
    )
    NETEM = ("sch_netem", "Latency (netem)", "tc qdisc add dev lo root netem delay 1ms")
    TBF = (
        "sch_tbf",
        "Bandwidth limits (tbf)",
        "tc qdisc add dev lo root tbf rate 1mbit burst 32kbit latency 400ms",
    )
    BLOCK_LIMITS = (
        "blkio or io controller",
        "Slow disks (block I/O limits)",
        "[ -w /cgroup/blkio/blkio.throttle.write_bps_device ] || "
        "grep -qsw io /cgroup/cgroup.subtree_control || "
        "{ echo 'neither blkio nor io is a writable controller of the control groups'; exit 1; }",
    )

    def __init__(self, kernel: str, what: str, script: str) -> None:
        self.kernel = kernel
        self.what = what
        self.script = script
