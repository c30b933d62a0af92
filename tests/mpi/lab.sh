# Two hosts for MPI programs: network namespaces joined by a cable, each with its own host name. Sourced by `run`.
#
# Needs root, ip(8), unshare(1).

LAB_A=emp_mpi_a
LAB_B=emp_mpi_b
IP_A=10.77.0.1
IP_B=10.77.0.2

lab_up() {
    lab_down
    ip netns add $LAB_A
    ip netns add $LAB_B
    ip link add emp_mpi_va type veth peer name emp_mpi_vb
    ip link set emp_mpi_va netns $LAB_A
    ip link set emp_mpi_vb netns $LAB_B
    ip -n $LAB_A addr add $IP_A/24 dev emp_mpi_va
    ip -n $LAB_B addr add $IP_B/24 dev emp_mpi_vb
    for end in a b; do
        ip -n emp_mpi_$end link set lo up
        ip -n emp_mpi_$end link set emp_mpi_v$end up
        mkdir -p /etc/netns/emp_mpi_$end
        printf '127.0.0.1 localhost\n%s emp-mpi-a\n%s emp-mpi-b\n' $IP_A $IP_B >/etc/netns/emp_mpi_$end/hosts
    done
}

lab_down() {
    ip netns del $LAB_A 2>/dev/null
    ip netns del $LAB_B 2>/dev/null
    rm -rf /etc/netns/emp_mpi_a /etc/netns/emp_mpi_b
    return 0
}

# Runs a command on the first host.
on_a() {
    ip netns exec $LAB_A unshare --uts sh -c 'hostname emp-mpi-a; exec "$@"' sh "$@"
}
