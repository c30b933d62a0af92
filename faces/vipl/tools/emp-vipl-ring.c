/*
 * emp-vipl-ring: bytes go around a ring of processes by RDMA writes with immediate data, which take a receive each. Each
 * process connects to the next one and is connected to by the one before.
 */
#include "common.h"

/* Where a process's buffer is; told to the one before. */
struct where {
	uint64_t address;
	uint32_t handle;
};

static VIP_VI_HANDLE to_next, from_last;

static void point_of(char *into, const struct options *options, unsigned long rank)
{
	snprintf(into, 64, "%s/%lu", options->point, rank);
}

static void connect_ring(const struct options *options, const char *next)
{
	char here[64], there[64];
	point_of(here, options, options->rank);
	point_of(there, options, (options->rank + 1) % options->count);
	/* The first one connects first, or all would wait. */
	if (options->rank == 0)
		be_client(to_next, next, there);
	be_server(from_last, here, THERE);
	if (options->rank != 0)
		be_client(to_next, next, there);
}

static void take(VIP_VI_HANDLE vi, int n, int blocking)
{
	VIP_DESCRIPTOR *d = received(vi, blocking);
	if (d != (VIP_DESCRIPTOR *)(memory + (size_t)n * STRIDE)) {
		fprintf(stderr, "%s: another descriptor than the one that was posted\n", tool);
		exit(1);
	}
}

int main(int count, char **arguments)
{
	struct options options;
	struct where mine, theirs;
	tool = "emp-vipl-ring";
	const char *synopsis =
	    "usage: emp-vipl-ring -c COUNT -r RANK [OPTIONS] [HOST...]\n\n"
	    "  -c COUNT    processes of the ring, 2 to 64\n"
	    "  -r RANK     which of them this is, from 0; its HOST is where the next one is (this machine)\n";
	options = read_options(count, arguments, "c:r:p:n:l:S:E:M:N:Vwh", "RDMA writes around a ring of processes", synopsis);
	if (options.count < 2 || options.rank >= options.count) {
		fprintf(stderr, "%s: -c must be at least 2, and -r less than that\n", tool);
		return 2;
	}
	const char *next = optind < count ? arguments[optind + (int)((options.rank + 1) % (unsigned long)(count - optind))] : NULL;
	char own[256] = "localhost";
	const char *called = getenv("EMP_NAME");
	gethostname(own, sizeof own - 1);
	if (next == NULL)
		next = called ? called : own;
	room = (options.span.end + 4095) / 4096 * 4096 + 4096;
	open_nic(&options, 4096 + 8 * room);
	to_next = new_vi(&options);
	from_last = new_vi(&options);
	/* 0: what the last one writes consumes this; 1: where the next one's buffer is; 2, 3: sends. */
	must("posting a receive", VipPostRecv(from_last, descriptor(0, 0), handle));
	must("posting a receive", VipPostRecv(to_next, descriptor(1, sizeof theirs), handle));
	connect_ring(&options, next);
	unsigned char *buffer = memory + 4096 + 4 * room;
	mine = (struct where){(uint64_t)buffer, handle};
	VIP_DESCRIPTOR *tell = descriptor(2, sizeof mine);
	memcpy(tell->DS[0].Local.Data.Address, &mine, sizeof mine);
	must("posting a send", VipPostSend(from_last, tell, handle));
	sent(from_last, options.blocking);
	take(to_next, 1, options.blocking);
	memcpy(&theirs, memory + 4096 + room, sizeof theirs);
	int leads = options.rank == 0;
	if (leads)
		printf("%10s %12s %14s   one process to the next\n", "bytes", "us", "MB/s");
	for (uint64_t length = options.span.start; length <= options.span.end; length = next_length(length, &options.span)) {
		uint64_t rounds = repetitions(&options.span, length);
		double begun = now();
		for (uint64_t i = 0; i < rounds; i++) {
			VIP_DESCRIPTOR *write = descriptor(3, length);
			if (leads)
				fill(buffer, length, i);
			else
				take(from_last, 0, options.blocking);
			if (options.span.verify)
				verify(buffer, length, i);
			if (!leads)
				must("posting a receive", VipPostRecv(from_last, descriptor(0, 0), handle));
			write->DS[1] = write->DS[0];
			write->DS[1].Local.Data.Address = buffer;
			write->DS[0].Remote.Data.AddressBits = theirs.address;
			write->DS[0].Remote.Handle = theirs.handle;
			write->DS[0].Remote.Reserved = 0;
			write->CS.SegCount = 2;
			write->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
			write->CS.ImmediateData = (VIP_UINT32)i;
			must("posting a write", VipPostSend(to_next, write, handle));
			sent(to_next, options.blocking);
			if (leads) {
				take(from_last, 0, options.blocking);
				verify(buffer, options.span.verify ? length : 0, i);
				must("posting a receive", VipPostRecv(from_last, descriptor(0, 0), handle));
			}
		}
		begun = (now() - begun) / (double)rounds / (double)options.count;
		if (leads) {
			printf("%10llu %12.3f %14.3f\n", (unsigned long long)length, begun * 1e6, (double)length / begun / 1e6);
			fflush(stdout);
		}
	}
	/* Whoever ends first waits until the one before has its last word: so the ring ends in order. */
	VIP_DESCRIPTOR *d;
	if (!leads)
		VipRecvWait(from_last, 5000, &d);
	must("disconnecting", VipDisconnect(to_next));
	if (leads)
		VipRecvWait(from_last, 5000, &d);
	must("disconnecting", VipDisconnect(from_last));
	while (VipRecvDone(from_last, &d) == VIP_DESCRIPTOR_ERROR && d != NULL)
		;
	must("the VI", VipDestroyVi(to_next));
	must("the VI", VipDestroyVi(from_last));
	close_nic();
	return 0;
}
